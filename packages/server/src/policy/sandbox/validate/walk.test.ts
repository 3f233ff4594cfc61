import { describe, expect, it } from 'vitest';
import { coreActionText, writtenAction } from '../fixtures/hostile/core-action.ts';
import { assembled } from '../fixtures/wat-component.ts';
import { walkComponent } from './component.ts';

const empty = coreActionText({ evaluate: '' });

/** Parts of a component's text, as often as said. */
function times(count: number, part: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => part(index)).join('\n');
}

async function walked(text: string) {
  return walkComponent(await assembled(`(component ${text})`));
}

describe('what is counted', () => {
  it('is in components of components too', async () => {
    const tally = await walked(`
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

  it('are core instances, each time that a component becomes an instance', async () => {
    const tally = await walked(`
      (component $a (core module $m) (core instance (instantiate $m)) (core instance))
      (component $b
        (alias outer 1 $a (component $also))
        (instance (instantiate $also)) (instance (instantiate $also)) (export "also" (component $also)))
      (instance (instantiate $b)) (instance (instantiate $b)) (instance (instantiate $a))`);
    expect(tally.coreInstances).toBe(10);
  });
});

describe('too much', () => {
  const memory = (pages: number) => `(core module (memory ${pages}))`;
  const cases: readonly (readonly [what: string, fits: string, beyond: string])[] = [
    ['129 core modules', times(128, () => '(core module)'), times(129, () => '(core module)')],
    ['257 core instances', times(256, () => '(core instance)'), times(257, () => '(core instance)')],
    ['65 nested components', times(64, () => '(component)'), times(65, () => '(component)')],
    ['1025 pages of memory', memory(1024), `${memory(1000)} (component ${memory(25)})`],
    [
      '33 tables',
      `(core module ${times(32, () => '(table 0 funcref)')})`,
      `(core module ${times(33, () => '(table 0 funcref)')})`,
    ],
    ['100001 elements in a table', '(core module (table 100000 funcref))', '(core module (table 100001 funcref))'],
    [
      '400001 elements in its tables',
      times(4, () => '(core module (table 100000 funcref))'),
      `${times(4, () => '(core module (table 100000 funcref))')} (core module (table 1 funcref))`,
    ],
  ];

  it.each(cases)('is %s', async (what, fits, beyond) => {
    await walked(fits);
    await expect(walked(beyond)).rejects.toThrow(`it has ${what}`);
  });

  it('are 2 to the power of 20 core instances, which a few components make', async () => {
    const doubling = times(
      20,
      (n) => `(component $c${n + 1}
      (alias outer 1 $c${n} (component $c)) (instance (instantiate $c)) (instance (instantiate $c)))`,
    );
    await expect(walked(`(component $c0 (core instance)) ${doubling} (instance (instantiate $c20))`)).rejects.toThrow(
      'it has 1048576 core instances, actions may have 256',
    );
  });
});

describe('what actions cannot use', () => {
  it.each([
    ['memories of 64 bits', '(core module (memory i64 1))', 'a memory that is shared, of 64 bits'],
    ['tables of 64 bits', '(core module (table i64 1 funcref))', 'a table that is shared, of 64 bits'],
    ['shared memories', '(core module (memory 1 1 shared))', 'a memory that is shared'],
    ['imports of shared memories', '(core module (import "a" "b" (memory 1 1 shared)))', 'a memory that is shared'],
    ['pages of another size', '(core module (memory 1 (pagesize 1)))', 'of another page size'],
    ['tables with a value', '(core module (table 1 funcref (ref.null func)))', 'a table with an initial value'],
    ['core types', '(core type (module (import "a" "b" (func))))', 'a section of kind 3'],
    ['imports of modules', '(core type $t (module)) (import "m" (core module (type $t)))', 'a section of kind 3'],
  ])('are %s', async (_, text, message) => {
    await expect(walked(text)).rejects.toThrow(message);
  });

  it('are names with options', async () => {
    const bytes = Buffer.from(await assembled('(component (import "f" (func)))'));
    const name = bytes.lastIndexOf('\0\x01f');
    expect(() => walkComponent(bytes)).not.toThrow();
    bytes[name] = 1;
    expect(() => walkComponent(bytes)).not.toThrow();
    bytes[name] = 2;
    expect(() => walkComponent(bytes)).toThrow('a name with options (form 2), which actions cannot use');
  });
});

describe('malformed bytes', () => {
  const header = [0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0];

  it.each([
    ['a section beyond the end', [4, 9, 0], 'cut off after 11 bytes, at least 8 bytes are missing'],
    ['a section without its size', [4], 'cut off after 9 bytes, at least 1 byte is missing'],
    ['a count beyond the end', [2, 5, 0xff, 0xff, 0xff, 0xff, 0x0f], 'ends too early'],
    ['a number of 33 bits', [2, 5, 0xff, 0xff, 0xff, 0xff, 0x1f], 'more than 32 bits'],
    ['a number without an end', [2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80], 'more than 32 bits'],
    ['bytes after a section', [2, 2, 0, 0], 'bytes that belong to nothing'],
    ['a section of no kind', [13, 0], 'a section of kind 13'],
    ['a name beyond its section', [10, 3, 1, 0, 9, 1, 0], 'ends too early'],
    ['an instance of no component', [5, 4, 1, 0, 0, 0], 'names a component that there is not'],
    ['a core module of version 2', [1, 8, 0, 0x61, 0x73, 0x6d, 2, 0, 0, 0], 'a core module of an unknown version'],
    ['a component of version 14 inside', [4, 8, 0, 0x61, 0x73, 0x6d, 0x0e, 0, 1, 0], 'not a component'],
  ])('%s', (_, bytes, message) => {
    expect(() => walkComponent(Uint8Array.from([...header, ...bytes]))).toThrow(message);
  });

  it('are refused in core modules too', async () => {
    const bytes = Buffer.from(await writtenAction(empty));
    expect(() => walkComponent(bytes)).not.toThrow();
    const start = bytes.indexOf('\0asm\x01\0\0\0');
    for (const [at, byte] of [
      [8, 14],
      [9, 0xff],
    ] as const) {
      const broken = Buffer.from(bytes);
      broken[start + at] = byte;
      expect(() => walkComponent(broken)).toThrow(/^not a valid component: at byte \d+ it /);
    }
  });
});
