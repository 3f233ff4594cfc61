/** A scenario that does not end across the eras as it does in its own, and why no gateway can change that. */
export interface Exception {
  readonly scenario: string;
  /** `warns`: the scenario passes, with a warning. */
  readonly end: 'fails' | 'warns';
  /** What the referee complains of, a part of its words; it may complain of nothing else there. */
  readonly complaint: string;
  readonly reason: string;
}

/** The suite of the modern era with an upstream that knows the legacy era alone. */
export const exceptionsWithLegacyUpstream: readonly Exception[] = [
  {
    scenario: 'input-required-result-basic-elicitation',
    end: 'fails',
    complaint: 'inputRequests missing expected key "user_name"',
    reason:
      'wants the question under the key `user_name`. The key is the server’s own name for it; a request of the legacy era has no name, so Sluice gives one',
  },
  {
    scenario: 'input-required-result-ignore-extra-params',
    end: 'warns',
    complaint: 'Server did not return complete result when valid inputResponses were provided',
    reason:
      'begins a call with the answer to the question `user_name`, which nobody has asked yet. A legacy server takes answers to what it has asked alone, so the question is asked',
  },
];

/** The suite of the legacy era with an upstream that knows the modern era alone. */
export const exceptionsWithModernUpstream: readonly Exception[] = [];
