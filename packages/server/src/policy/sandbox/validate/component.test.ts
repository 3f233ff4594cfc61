import { describe, expect, it } from 'vitest';
import { coreActionText, writtenAction } from '../fixtures/hostile/core-action.ts';
import { assembled } from '../fixtures/wat-component.ts';
import { walkComponent } from './component.ts';

const empty = coreActionText({ evaluate: '' });

/** Repeats a part of a component's text. */
function times(count: number, part: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => part(index)).join('\n');
}

async function walk(text: string) {
  return walkComponent(await assembled(`(component ${text})`));
}

describe('the counts of a component', () => {
  it('include nested components', async () => {
    const tally = await walk(`
      (component $inner
        (core module $m (import "a" "b" (func)) (memory 3) (memory 4 9) (table 5 funcref) (func))
        (component))
      (core module (import "a" "m" (memory 1 2)) (import "a" "t" (table 1 funcref))
        (import "a" "g" (global (mut i64))) (import "a" "e" (tag)) (table 7 9 externref))
      (import "f" (func))
      (export "g" (func 0))`);
    expect(tally).toMatchObject({
      coreModules: 2,
      coreInstances: 0,
      components: 2,
      memoryPages: 7,
      tables: 2,
      tableElements: 12,
    });
  });

  it('include the core instances of each instance of a component', async () => {
    const tally = await walk(`
      (component $a (core module $m) (core instance (instantiate $m)) (core instance))
      (component $b
        (alias outer 1 $a (component $also))
        (instance (instantiate $also)) (instance (instantiate $also)) (export "also" (component $also)))
      (instance (instantiate $b)) (instance (instantiate $b)) (instance (instantiate $a))`);
    expect(tally.coreInstances).toBe(10);
  });
});

describe('limits', () => {
  const memory = (pages: number) => `(core module (memory ${pages}))`;
  const cases: readonly (readonly [what: string, fits: string, beyond: string])[] = [
    ['core modules: 129', times(128, () => '(core module)'), times(129, () => '(core module)')],
    ['core instances: 257', times(256, () => '(core instance)'), times(257, () => '(core instance)')],
    ['nested components: 65', times(64, () => '(component)'), times(65, () => '(component)')],
    ['pages of initial memory: 1025', memory(1024), `${memory(1000)} (component ${memory(25)})`],
    [
      'tables: 33',
      `(core module ${times(32, () => '(table 0 funcref)')})`,
      `(core module ${times(33, () => '(table 0 funcref)')})`,
    ],
    ['elements in a table: 100001', '(core module (table 100000 funcref))', '(core module (table 100001 funcref))'],
    [
      'elements in all tables: 400001',
      times(4, () => '(core module (table 100000 funcref))'),
      `${times(4, () => '(core module (table 100000 funcref))')} (core module (table 1 funcref))`,
    ],
  ];

  it.each(cases)('are enforced: %s', async (what, fits, beyond) => {
    await walk(fits);
    await expect(walk(beyond)).rejects.toThrow(`too many ${what}`);
  });

  it('are enforced for a few components that create 2^20 core instances', async () => {
    const doubling = times(
      20,
      (n) => `(component $c${n + 1}
      (alias outer 1 $c${n} (component $c)) (instance (instantiate $c)) (instance (instantiate $c)))`,
    );
    await expect(walk(`(component $c0 (core instance)) ${doubling} (instance (instantiate $c20))`)).rejects.toThrow(
      'too many core instances: 1048576, maximum 256',
    );
  });
});

describe('unsupported features', () => {
  it.each([
    ['64-bit memories', '(core module (memory i64 1))', 'memory that is shared, 64-bit'],
    ['64-bit tables', '(core module (table i64 1 funcref))', 'table that is shared, 64-bit'],
    ['shared memories', '(core module (memory 1 1 shared))', 'memory that is shared'],
    ['imports of shared memories', '(core module (import "a" "b" (memory 1 1 shared)))', 'memory that is shared'],
    ['custom page sizes', '(core module (memory 1 (pagesize 1)))', 'of another page size'],
    ['tables with an initial value', '(core module (table 1 funcref (ref.null func)))', 'table with an initial value'],
    ['core types', '(core type (module (import "a" "b" (func))))', 'unsupported section 3'],
    ['imports of modules', '(core type $t (module)) (import "m" (core module (type $t)))', 'unsupported section 3'],
  ])('are rejected: %s', async (_, text, message) => {
    await expect(walk(text)).rejects.toThrow(message);
  });

  it('include names with options', async () => {
    const bytes = Buffer.from(await assembled('(component (import "f" (func)))'));
    const name = bytes.lastIndexOf('\0\x01f');
    expect(() => walkComponent(bytes)).not.toThrow();
    bytes[name] = 1;
    expect(() => walkComponent(bytes)).not.toThrow();
    bytes[name] = 2;
    expect(() => walkComponent(bytes)).toThrow('name with options (form 2) is not supported');
  });
});

describe('malformed bytes', () => {
  const header = [0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0];

  it.each([
    ['a section beyond the end', [4, 9, 0], 'ends after 11 bytes, at least 8 bytes missing'],
    ['a section without its size', [4], 'ends after 9 bytes, at least 1 byte missing'],
    ['a count beyond the end', [2, 5, 0xff, 0xff, 0xff, 0xff, 0x0f], 'unexpected end'],
    ['an integer of 33 bits', [2, 5, 0xff, 0xff, 0xff, 0xff, 0x1f], 'exceeds 32 bits'],
    ['an unterminated integer', [2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80], 'exceeds 32 bits'],
    ['bytes after a section', [2, 2, 0, 0], 'unexpected trailing bytes'],
    ['an unknown section', [13, 0], 'unsupported section 13'],
    ['a name beyond its section', [10, 3, 1, 0, 9, 1, 0], 'unexpected end'],
    ['an instance of an unknown component', [5, 4, 1, 0, 0, 0], 'component index out of range'],
    ['a core module of version 2', [1, 8, 0, 0x61, 0x73, 0x6d, 2, 0, 0, 0], 'unsupported core module version'],
    ['a component of version 14 inside', [4, 8, 0, 0x61, 0x73, 0x6d, 0x0e, 0, 1, 0], 'not a component'],
  ])('%s', (_, bytes, message) => {
    expect(() => walkComponent(Uint8Array.from([...header, ...bytes]))).toThrow(message);
  });

  it('are rejected in core modules, too', async () => {
    const bytes = Buffer.from(await writtenAction(empty));
    expect(() => walkComponent(bytes)).not.toThrow();
    const start = bytes.indexOf('\0asm\x01\0\0\0');
    for (const [at, byte] of [
      [8, 14],
      [9, 0xff],
    ] as const) {
      const broken = Buffer.from(bytes);
      broken[start + at] = byte;
      expect(() => walkComponent(broken)).toThrow(/^not a valid component: .* \(at byte \d+\); rebuild the action$/);
    }
  });
});
