import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../http/settings.ts';
import { parseFlags, USAGE } from './config.ts';

const NO_FLAGS = {
  kind: 'run',
  pipelineConfig: undefined,
  serviceConfig: undefined,
  pluginsPath: undefined,
  port: undefined,
  logFormat: undefined,
  headless: false,
  local: false,
};

describe('flags', () => {
  it.each<[string[], object]>([
    [[], NO_FLAGS],
    [['serve'], NO_FLAGS],
    [['--pipeline-config', 'p.yaml'], { ...NO_FLAGS, pipelineConfig: 'p.yaml' }],
    [['--service-config=s.yaml'], { ...NO_FLAGS, serviceConfig: 's.yaml' }],
    [['serve', '--plugins-path', '/p'], { ...NO_FLAGS, pluginsPath: '/p' }],
    [['--service-config=-odd.yaml'], { ...NO_FLAGS, serviceConfig: '-odd.yaml' }],
    [['--service-config', 'serve'], { ...NO_FLAGS, serviceConfig: 'serve' }],
    [
      ['--pipeline-config', 'p', '--service-config', 's', '--plugins-path', 'd'],
      { ...NO_FLAGS, pipelineConfig: 'p', serviceConfig: 's', pluginsPath: 'd' },
    ],
    [['--port', '9090'], { ...NO_FLAGS, port: 9090 }],
    [['--port=0'], { ...NO_FLAGS, port: 0 }],
    [['--log-format', 'json'], { ...NO_FLAGS, logFormat: 'json' }],
    [['serve', '--local'], { ...NO_FLAGS, local: true }],
    [['-h'], { kind: 'help' }],
    [['--help'], { kind: 'help' }],
    [['serve', '--help'], { kind: 'help' }],
    [['--nonsense', '-h'], { kind: 'help' }],
    [['-v'], { kind: 'version' }],
    [['--version'], { kind: 'version' }],
  ])('parses %j', (argv, flags) => {
    expect(parseFlags(argv)).toEqual(flags);
  });

  it.each<[string[], string]>([
    [['--pipeline-config'], '--pipeline-config: missing path'],
    [['--service-config='], '--service-config: missing path'],
    [['--plugins-path', '--service-config', 's'], '--plugins-path: missing path'],
    [['--service-config', 'a', '--service-config', 'b'], '--service-config may be specified only once'],
    [['--local=1'], '--local takes no value'],
    [
      ['--host', '127.0.0.1'],
      'sluice serve does not accept --host: [^\\n]*--port, --local or set SERVICE_MGMT_LISTEN, ',
    ],
    [['--token=secret'], 'sluice serve does not accept --token: (?![^\\n]*secret)'],
    [['--no-auth'], 'sluice serve does not accept --no-auth: '],
    [['--port'], '--port: missing port'],
    [['--port', '65533'], '--port: "65533" is not a port: expected 1 to 65532, or 0'],
    [['--port=http'], '--port: "http" is not a port'],
    [['--log-format'], '--log-format: missing format'],
    [['--ports', '80'], 'unknown option "--ports"'],
    [['--no-help'], 'unknown option "--no-help"'],
    [['-x'], 'unknown option "-x"'],
    [['start'], 'unexpected argument "start"'],
    [['serve', 'serve'], 'unexpected argument "serve"'],
    [['--', 'serve'], 'unexpected argument "serve"'],
    [['--service-config', 's', 'serve'], 'unexpected argument "serve"'],
  ])('rejects %j with a one-line error', (argv, start) => {
    expect(() => parseFlags(argv)).toThrow(ConfigError);
    expect(() => parseFlags(argv)).toThrow(new RegExp(`^${start}[^\\n]*$`));
  });

  it('are documented in the usage text', () => {
    expect(USAGE).toContain('sluice serve [options]');
    const documented = USAGE.match(/--\w[\w-]*/g);
    expect(documented).toEqual([
      '--pipeline-config',
      '--service-config',
      '--plugins-path',
      '--port',
      '--pipeline-config',
      '--log-format',
      '--local',
      '--headless',
      '--help',
      '--version',
    ]);
    expect(() => parseFlags(['--ports'])).toThrow('see sluice serve --help');
  });
});
