/**
 * Entry of the process that parses and validates policies with Cedar's own implementation. A policy can break an instance for good:
 * the process then ends, and says so by sending nothing.
 */
import type * as Cedar from '@cedar-policy/cedar-wasm/nodejs';
import { lockdown } from '../host/lockdown.ts';
import { ParentPipe } from '../host/parent-pipe.ts';
import type { ParserRequest, ParserResponse } from '../policy-parser.ts';

const cedar: typeof Cedar = (await import('@cedar-policy/cedar-wasm/nodejs')) as typeof Cedar;
lockdown();
const pipe = new ParentPipe<ParserRequest, ParserResponse>();
for (let request = pipe.receive(); request; request = pipe.receive()) pipe.send(respond(request));

function respond(request: ParserRequest): ParserResponse {
  return request.kind === 'parse' ? parse(request.text) : validate(request);
}

function parse(text: string): ParserResponse {
  const answer = cedar.policyToJson(text);
  if (answer.type === 'success') return { kind: 'parsed', policy: answer.json };
  return { kind: 'problems', problems: answer.errors.map((error) => problemOf(error)) };
}

function validate({ schema, policies }: ParserRequest & { readonly kind: 'validate' }): ParserResponse {
  const answer = cedar.validate({ schema: schema as Cedar.Schema, policies: { staticPolicies: policies } });
  if (answer.type === 'failure') return { kind: 'problems', problems: answer.errors.map((error) => problemOf(error)) };
  const { validationErrors, validationWarnings } = answer;
  return {
    kind: 'problems',
    problems: [
      ...validationErrors.map(({ error, policyId }) => problemOf(error, policyId)),
      ...validationWarnings.map(({ error, policyId }) => ({ ...problemOf(error, policyId), isWarning: true })),
    ],
  };
}

/** Places are in bytes of the policy's text. */
function problemOf({ message, help, sourceLocations }: Cedar.DetailedError, policy = '') {
  const [location] = sourceLocations ?? [];
  const label = location?.label ?? undefined;
  return { policy, message: [message, label, help ?? undefined].filter(Boolean).join('; '), at: location?.start ?? 0 };
}
