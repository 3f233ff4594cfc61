import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { propertyRuns } from '../../../../../../test/fixtures/seed.ts';
import { assembled } from '../fixtures/wat-component.ts';
import { allowedCharacters, checkedExport, checkedName, walkComponent } from './component.ts';
import { glueOf, parsed } from './component-tools.fixture.ts';
import { InvalidComponentError } from './reader.ts';

/** Where a component has names that are not validated. */
interface Names {
  readonly module: string;
  readonly field: string;
  readonly exported: string;
  readonly source: string;
  /** Names for debugging, of all sorts of things. */
  readonly custom: string;
}

const harmless: Names = { module: 'a', field: 'b', exported: 'c', source: 'd', custom: 'e' };

/** A text in double quotes as WebAssembly's text format has it. */
function literal(name: string): string {
  return `"${[...Buffer.from(name)].map((byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('')}"`;
}

/** A component with names that glue is made of: a function passes through an inline instance into another module. */
function named(names: Partial<Names>): Promise<Uint8Array> {
  const { module, field, exported, source, custom } = { ...harmless, ...names };
  return assembled(`(component
    (core module $n (func (export ${literal(source)})) (func (export "unused")))
    (core module $m
      (@custom "name" ${literal(`\0${String.fromCharCode(custom.length + 1, custom.length)}${custom}`)})
      (import ${literal(module)} ${literal(field)} (func $f))
      (func (export ${literal(exported)}) (call $f)))
    (core instance $i (instantiate $n))
    (core instance $j (export ${literal(field)} (func $i ${literal(source)})))
    (core instance $k (instantiate $m (with ${literal(module)} (instance $j))))
    (alias core export $k ${literal(exported)} (core func $f))
    (func (export "run") (canon lift (core func $f))))`);
}

/** Glue without what names may change: texts, and the ends of the glue's own identifiers. */
function skeleton(glue: string): string {
  return glue.replace(/'[^'\\\n]*'/g, "''").replace(/(?<=[\w$])Zq[\w$]*/g, '');
}

describe('names that are allowed', () => {
  const characters = fc.constantFrom(...allowedCharacters);
  // The hyphen keeps them from being identifiers, which glue writes without quotes.
  const name = fc
    .string({ unit: characters, maxLength: 12 })
    .map((text) => `zq-${text}`)
    .filter(passes);

  // A variable is named after what follows a slash.
  const exportName = name.filter((text) => !text.includes('/'));

  it('change nothing in glue but texts and what identifiers end with', async () => {
    const plain = skeleton(glueOf(await named({ module: 'zq-a', field: 'zq-a', exported: 'zq-a', source: 'zq-a' })));
    await fc.assert(
      fc.asyncProperty(name, name, exportName, name, async (module, field, exported, source) => {
        const component = await named({ module, field, exported, source });
        walkComponent(component);
        const glue = glueOf(component);
        parsed(glue);
        expect(skeleton(glue)).toBe(plain);
      }),
      { numRuns: propertyRuns(200) },
    );
  });

  it('with a slash are turned into identifiers where variables are named after them', async () => {
    const rest = fc.string({ unit: characters, maxLength: 12 }).filter((text) => passes(`zq/${text}`));
    await fc.assert(
      fc.asyncProperty(rest, async (text) => {
        const glue = glueOf(await named({ exported: `zq/${text}` }));
        parsed(glue);
        expect(glue).toMatch(/^ *[\w$]+ = exports1\['zq\/[^'\n]*'\];$/m);
      }),
      { numRuns: propertyRuns(50) },
    );
  });

  it('may be identifiers, which are members then', async () => {
    const component = await named({ module: 'constructor', field: 'then', exported: 'default', source: 'arguments' });
    walkComponent(component);
    const glue = glueOf(component);
    parsed(glue);
    expect(glue).toMatch(/exports\d+(?:\.arguments|\['arguments'\])/);
  });
});

describe('names that are not', () => {
  const places: readonly (keyof Names)[] = ['module', 'field', 'exported', 'source'];
  const names: readonly string[] = [
    "a'",
    'a"',
    'a`',
    'a\\',
    'a$'.concat('{b}'),
    'a(b)',
    'a b',
    'a\nb',
    'a\rb',
    'a\u2028b',
    'a\0b',
    'a*/b',
    'a;b',
    'aé',
    "']; globalThis.process.exit(7); ['",
    '__proto__',
    'a//b',
    'a<!--b',
    'a-->b',
    'a'.repeat(513),
  ];

  it.each(places)('are refused as %s', async (place) => {
    for (const name of names) {
      const component = await named({ [place]: name });
      let refused: unknown;
      try {
        walkComponent(component);
      } catch (error) {
        refused = error;
      }
      expect(refused, name).toBeInstanceOf(InvalidComponentError);
      expect(String(refused)).toMatch(/^[\x20-\x7e]{1,220}$/);
    }
  });

  it.each(['a/exports0', 'a/undefined', 'a/global-this', 'a/getCoreModule'])(
    'are refused as exports: %s',
    async (name) => {
      const component = await named({ exported: name });
      expect(() => walkComponent(component)).toThrow(`the name "${name}" in it has a meaning of its own in JavaScript`);
      expect(() => checkedName(Buffer.from(name))).not.toThrow();
    },
  );

  it('do not matter where glue is not made of them', async () => {
    const component = await named({ custom: "']; globalThis.process.exit(7); ['" });
    walkComponent(component);
    expect(glueOf(component)).not.toContain('exit(7)');
  });

  it('are refused when they are no UTF-8', () => {
    expect(() => checkedName(Uint8Array.of(0x61, 0xff))).toThrow(/^the name "a\\u\{ff\}" in it has a character/);
  });
});

function passes(name: string): boolean {
  try {
    checkedExport(Buffer.from(name));
    return true;
  } catch {
    return false;
  }
}
