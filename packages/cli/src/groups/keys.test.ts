import { identity } from '@sluice/contract';
import { hashServiceKey } from '@sluice/contract/service-key';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { run } from '../run.ts';
import { scriptedTerminal } from '../testing/scripted-terminal.ts';

async function create(...argv: string[]) {
  // No service listens there.
  const terminal = scriptedTerminal({ env: { SLUICE_HOST: 'no-such-host.invalid', XDG_CONFIG_HOME: '/nowhere' } });
  const code = await run(['keys', 'create', ...argv], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

describe('sluice keys create', () => {
  it.each(['nightly-report', '123', 'null', '1e5', 'a.b_c'])(
    'prints a key, and settings that accept it: %s',
    async (name) => {
      const { code, out, err } = await create(name);
      expect({ code, err }).toEqual({ code: 0, err: '' });
      const [shown = '', explanation, settings = ''] = out.split('\n\n');
      const [, key = '', sha256] = /^key: {4}(slk_[A-Za-z0-9_-]{43})\nsha256: ([0-9a-f]{64})$/.exec(shown) ?? [];
      expect(sha256).toBe(hashServiceKey(key));
      expect(explanation).toBe('Store the key now: it is not shown again. Add to the settings of the service:');
      expect(settings).not.toContain(key);
      expect(identity.parse(parse(settings).identity).keys).toMatchObject([{ name, sha256: [sha256] }]);
    },
  );

  it('prints another key each time, also as JSON and YAML', async () => {
    const printed = [
      JSON.parse((await create('night', '-o', 'json')).out),
      parse((await create('night', '-o', 'yaml')).out),
    ];
    for (const { key, ...others } of printed) expect(others).toEqual({ name: 'night', sha256: hashServiceKey(key) });
    expect(printed[0].key).not.toBe(printed[1].key);
  });

  it.each([
    ['Night', 'sluice: invalid name "Night"\n  must be 1 to 64 lowercase letters, digits, ".", "_" or "-"\n'],
    ['', 'sluice: invalid name ""\n  must be 1 to 64 lowercase letters, digits, ".", "_" or "-"\n'],
    ['keys/night', expect.stringContaining('sluice: invalid name "keys/night"\n')],
  ])('rejects a name that the settings reject: %j', async (name, err) => {
    expect(await create(name)).toEqual({ code: 1, out: '', err });
  });

  it('does not print a name in place of the key', async () => {
    expect(await create('night', '-o', 'name')).toEqual({
      code: 1,
      out: '',
      err: 'sluice: --output name: "sluice keys create" prints no names; use table, json or yaml\n',
    });
  });
});
