import { beforeAll, describe, expect, it } from 'vitest';
import {
  type EvaluatedService,
  errorOf,
  evaluator,
  ownTool,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { legacyClient } from './fixtures/raw-client.ts';

// Requests that are too large for an evaluator do not bypass it (docs/evaluators.md).

let evaluated: EvaluatedService;
beforeAll(async () => {
  evaluated = await startEvaluatedService();
  await evaluated.service.register('tools', ownTool('large'));
  return () => evaluated.close();
}, 120_000);

describe('a request that cannot be evaluated', () => {
  it.each(['continue', 'block'] as const)('is rejected before the LLM call, with on_error %s', async (onError) => {
    await evaluated.apply(evaluator('gate', { llmOutput: 'pass', on_error: onError }));
    const client = await legacyClient(evaluated.service.url());
    const requested = evaluated.llm.requests.length;
    const many = Array.from({ length: 1001 }, (_, at) => `"n${at}":1`).join(',');
    for (const [pairs, message] of [
      [many, 'too many arguments: evaluated requests may have at most 1000'],
      ['"a":"good","b":1,"\\u0061":"bad"', 'duplicate argument "a"'],
      ['"a":{"b":[{"path":"/tmp","p\\u0061th":"/etc"}]}', 'duplicate member "path" in argument "a"'],
      [`"a":[${'{"":0},'.repeat(500_000)}{"b":1,"b":2}]`, 'duplicate member "b" in argument "a"'],
    ] as const) {
      const response = await client.call('tools/call', `{"name":"large","arguments":{${pairs}}}`);
      expect(errorOf(response)).toEqual({ code: -32602, message });
    }
    expect(evaluated.llm.requests).toHaveLength(requested);
  });
});
