/** A scenario with another result across eras than within its own era, and the reason why no gateway can avoid that. */
export interface Exception {
  readonly scenario: string;
  /** `warns`: the scenario passes, with a warning. */
  readonly result: 'fails' | 'warns';
  /** Part of the suite's message; the scenario may have no other failures or warnings. */
  readonly message: string;
  readonly reason: string;
}

/** Exceptions of the modern suite with a legacy-only upstream. */
export const exceptionsWithLegacyUpstream: readonly Exception[] = [
  {
    scenario: 'input-required-result-basic-elicitation',
    result: 'fails',
    message: 'inputRequests missing expected key "user_name"',
    reason:
      'requires the server request to have the key `user_name`. Servers choose these keys; a legacy server request has none, so Sluice generates one',
  },
  {
    scenario: 'input-required-result-ignore-extra-params',
    result: 'warns',
    message: 'Server did not return complete result when valid inputResponses were provided',
    reason:
      'starts a call with a response to the server request `user_name` before that request. A legacy server accepts only responses to requests that it has sent, so the client receives the request',
  },
];

/** Exceptions of the legacy suite with a modern-only upstream. */
export const exceptionsWithModernUpstream: readonly Exception[] = [];
