import { expect, it } from 'vitest';
import { loadConfig, withPort } from './config.ts';

it.each<[string, Record<string, string>, number | undefined, boolean, (string | undefined)[]]>([
  ['nothing without the flag', {}, undefined, false, [undefined, undefined, undefined]],
  ['the embedded listeners follow', {}, 9080, false, ['0.0.0.0:9080', '0.0.0.0:9081', '0.0.0.0:9083']],
  ['any free ports', {}, 0, false, ['0.0.0.0:0', '0.0.0.0:0', '0.0.0.0:0']],
  [
    'the host of the variable stays',
    { SERVICE_MGMT_LISTEN: '[::1]:8080' },
    9080,
    false,
    ['[::1]:9080', '0.0.0.0:9081', '0.0.0.0:9083'],
  ],
  [
    'other variables stay',
    { SERVICE_MCP_LISTEN: '127.0.0.1:7000', SERVICE_INFERENCE_LISTEN: '127.0.0.1:7001' },
    9080,
    false,
    ['0.0.0.0:9080', '127.0.0.1:7000', '127.0.0.1:7001'],
  ],
  ['listeners of a pipeline file stay', {}, 9080, true, ['0.0.0.0:9080', undefined, undefined]],
])('--port: %s', (_what, env, port, hasPipeline, expected) => {
  const { SERVICE_MGMT_LISTEN, SERVICE_MCP_LISTEN, SERVICE_INFERENCE_LISTEN } = withPort(env, port, hasPipeline);
  expect([SERVICE_MGMT_LISTEN, SERVICE_MCP_LISTEN, SERVICE_INFERENCE_LISTEN]).toEqual(expected);
});

it('--port and --local apply together', async () => {
  const invocation = await loadConfig(['--port', '9080', '--local'], {}, '/nonexistent');
  if (invocation.kind !== 'run') throw new Error('prints');
  const { mgmtListen, pipeline } = invocation.config;
  expect(mgmtListen).toEqual({ host: '127.0.0.1', port: 9080 });
  expect(pipeline.listeners.map(({ address }) => address)).toEqual([
    { host: '127.0.0.1', port: 9081 },
    { host: '127.0.0.1', port: 9083 },
  ]);
});
