import { startGateway } from '../fixtures/gateway.ts';
import type { Era } from '../fixtures/raw-upstream/message.ts';
import { clientScenarios } from './client-scenarios.ts';
import { discovered } from './discovered.ts';
import { TURNS_PORT, takeTurn } from './turns.ts';

/**
 * The client under test: `client.ts URL`, started by a referee, which serves at that URL and names the scenario in the
 * environment. Starts a gateway with the referee as its forward and drives the official client through it. Ends with
 * code 0 and nothing on stderr, or with code 1 and the reason.
 */
const { MCP_CONFORMANCE_SCENARIO: name = '', MCP_CONFORMANCE_PROTOCOL_VERSION: version = '2025-11-25' } = process.env;
const address = process.argv[2];
const scenario = clientScenarios.get(name);
if (address === undefined || scenario === undefined) {
  console.error(`there is nothing here that drives a client for the scenario "${name}" at ${address}`);
  process.exit(1);
}

const DEADLINE_MS = 15_000;
const era: Era = version === '2026-07-28' ? 'modern' : 'legacy';

const done = await takeTurn(process.env[TURNS_PORT]);
const gateway = await startGateway();
const late = AbortSignal.timeout(DEADLINE_MS);
try {
  const given: unknown = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? 'null');
  await gateway.forward('referee', address);
  await discovered(gateway);
  const inTime = new Promise<never>((_resolve, reject) => {
    late.onabort = () => reject(new Error(`not done after ${DEADLINE_MS} ms`));
  });
  await Promise.race([scenario({ url: gateway.url(), era, given }), inTime]);
} catch (error) {
  const logged = gateway.logs.slice(-10).map((line) => JSON.stringify(line));
  console.error([error instanceof Error ? error.message : String(error), ...logged].join('\n'));
  process.exitCode = 1;
} finally {
  await gateway.close();
  done();
}
// The client may hold streams and timers that nobody needs any more.
process.exit();
