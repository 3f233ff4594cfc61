import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { startGateway } from './fixtures/gateway.ts';

const TOOLS = 1_000;
const ROUNDS = 8;

/** A state whose tools all have this description. */
const stateOf = (description: string) => ({
  tools: Array.from({ length: TOOLS }, (_, at) => ({
    name: `t${at}`,
    description,
    uri: 'u',
    toolType: 'custom',
    input_schema: {},
  })),
});

test('a state is applied as a whole or not at all by a service that is killed meanwhile, and an acknowledged one is kept', async () => {
  const gateway = await startGateway();
  onTestFinished(gateway.close);
  const started = performance.now();
  expect((await gateway.api('PUT', '/api/v1/state', stateOf('0'))).status).toBe(200);
  const durationMs = performance.now() - started;
  let found = '0';
  for (let round = 1; round <= ROUNDS; round++) {
    const applying = gateway.api('PUT', '/api/v1/state', stateOf(String(round))).then(
      ({ status }) => status,
      () => undefined,
    );
    // From the beginning of the request to about its response, and once after it.
    await delay((durationMs * round) / ROUNDS);
    if (round === ROUNDS) await applying;
    await gateway.kill();
    const status = await applying;
    await gateway.restart();
    const tools = Object((await gateway.api('GET', `/api/v1/tools?limit=${TOOLS}`)).body).data as {
      description: string;
    }[];
    const descriptions = new Set(tools.map(({ description }) => description));
    expect([tools.length, descriptions.size]).toEqual([TOOLS, 1]);
    const [description = ''] = descriptions;
    expect(status === 200 ? [String(round)] : [found, String(round)]).toContain(description);
    found = description;
  }
  expect(found).toBe(String(ROUNDS));
});
