import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import type { StageRequest } from './stage.ts';

/**
 * The client under test: `client.ts URL`, started by a referee, which serves at that URL and names the scenario in the
 * environment. Has the scenario played where the official client and the gateway run. Ends with code 0 and nothing on
 * stderr, or with code 1 and the reason.
 */
const { env, argv } = process;
const request: StageRequest = {
  name: env.MCP_CONFORMANCE_SCENARIO ?? '',
  version: env.MCP_CONFORMANCE_PROTOCOL_VERSION ?? '2025-11-25',
  given: env.MCP_CONFORMANCE_CONTEXT ?? 'null',
  address: argv[2] ?? '',
};
const stage = connect(Number(env.CONFORMANCE_STAGE_PORT), '127.0.0.1');
stage.end(JSON.stringify(request));
const complaint = await text(stage);
if (complaint !== '') {
  console.error(complaint);
  process.exitCode = 1;
}
