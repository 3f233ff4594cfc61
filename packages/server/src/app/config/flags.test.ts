import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../http/address.ts';
import { parseFlags, USAGE } from './config.ts';

const NOTHING = { kind: 'run', pipelineConfig: undefined, serviceConfig: undefined, pluginsPath: undefined };

describe('flags', () => {
  it.each<[string[], object]>([
    [[], NOTHING],
    [['serve'], NOTHING],
    [['--pipeline-config', 'p.yaml'], { ...NOTHING, pipelineConfig: 'p.yaml' }],
    [['--service-config=s.yaml'], { ...NOTHING, serviceConfig: 's.yaml' }],
    [['serve', '--plugins-path', '/p'], { ...NOTHING, pluginsPath: '/p' }],
    [['--service-config=-odd.yaml'], { ...NOTHING, serviceConfig: '-odd.yaml' }],
    [['--service-config', 'serve'], { ...NOTHING, serviceConfig: 'serve' }],
    [
      ['--pipeline-config', 'p', '--service-config', 's', '--plugins-path', 'd'],
      { kind: 'run', pipelineConfig: 'p', serviceConfig: 's', pluginsPath: 'd' },
    ],
    [['-h'], { kind: 'help' }],
    [['--help'], { kind: 'help' }],
    [['serve', '--help'], { kind: 'help' }],
    [['--nonsense', '-h'], { kind: 'help' }],
    [['-v'], { kind: 'version' }],
    [['--version'], { kind: 'version' }],
  ])('%j is understood', (argv, flags) => {
    expect(parseFlags(argv)).toEqual(flags);
  });

  it.each<[string[], string]>([
    [['--pipeline-config'], '--pipeline-config: needs a path'],
    [['--service-config='], '--service-config: needs a path'],
    [['--plugins-path', '--service-config', 's'], '--plugins-path: needs a path'],
    [['--service-config', 'a', '--service-config', 'b'], '--service-config: is given twice'],
    [['--port', '80'], 'unknown option "--port"'],
    [['--port=80'], 'unknown option "--port"'],
    [['--no-help'], 'unknown option "--no-help"'],
    [['-x'], 'unknown option "-x"'],
    [['start'], 'unexpected argument "start"'],
    [['serve', 'serve'], 'unexpected argument "serve"'],
    [['--', 'serve'], 'unexpected argument "serve"'],
    [['--service-config', 's', 'serve'], 'unexpected argument "serve"'],
  ])('%j is refused in one line', (argv, start) => {
    expect(() => parseFlags(argv)).toThrow(ConfigError);
    expect(() => parseFlags(argv)).toThrow(new RegExp(`^${start}[^\\n]*$`));
  });

  it('are told of as they work today', () => {
    expect(USAGE).toContain('sluice serve [options]');
    const told = USAGE.match(/--\w[\w-]*/g);
    expect(told).toEqual(['--pipeline-config', '--service-config', '--help', '--version']);
    expect(() => parseFlags(['--port'])).toThrow('see sluice serve --help');
  });
});
