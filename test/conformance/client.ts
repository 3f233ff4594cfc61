import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import type { ScenarioRequest } from './scenario-runner.ts';

/**
 * The client under test: `client.ts URL`, started by a suite, which serves at that URL and sets the scenario in the
 * environment. Sends the scenario to the scenario runner, where the official client and the gateway run. Exits with code 0
 * and nothing on stderr, or with code 1 and an error message.
 */
const { env, argv } = process;
const request: ScenarioRequest = {
  name: env.MCP_CONFORMANCE_SCENARIO ?? '',
  version: env.MCP_CONFORMANCE_PROTOCOL_VERSION ?? '2025-11-25',
  context: env.MCP_CONFORMANCE_CONTEXT ?? 'null',
  address: argv[2] ?? '',
};
const runner = connect(Number(env.CONFORMANCE_SCENARIO_RUNNER_PORT), '127.0.0.1');
runner.end(JSON.stringify(request));
const error = await text(runner);
if (error !== '') {
  console.error(error);
  process.exitCode = 1;
}
