import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { propertyRuns } from '../../../../../../test/fixtures/seed.ts';
import { assembled } from '../fixtures/wat-component.ts';
import { allowedCharacters, checkedExport, checkedName, walkComponent } from './component.ts';
import { glueOf, parsed } from './component-tools.fixture.ts';
import { InvalidComponentError } from './reader.ts';

/** Names of a component that the component tools do not validate. */
interface Names {
  readonly module: string;
  readonly field: string;
  readonly exported: string;
  readonly source: string;
  /** Debug names in a custom section. */
  readonly custom: string;
}

const harmless: Names = { module: 'a', field: 'b', exported: 'c', source: 'd', custom: 'e' };

/** String literal of WebAssembly's text format. */
function literal(name: string): string {
  return `"${[...Buffer.from(name)].map((byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('')}"`;
}

/** Component with names that reach glue: a function is passed through an inline instance into another module. */
function componentWith(names: Partial<Names>): Promise<Uint8Array> {
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

/** Glue without the parts that names may change: string contents, and suffixes of the glue's own identifiers. */
function skeleton(glue: string): string {
  return glue.replace(/'[^'\\\n]*'/g, "''").replace(/(?<=[\w$])Zq[\w$]*/g, '');
}

describe('allowed names', () => {
  const characters = fc.constantFrom(...allowedCharacters);
  // With a hyphen they are not identifiers, which glue writes without quotes.
  const name = fc
    .string({ unit: characters, maxLength: 12 })
    .map((text) => `zq-${text}`)
    .filter(isAllowed);

  // Variables are named after the part behind a slash.
  const exportName = name.filter((text) => !text.includes('/'));

  it('change nothing in glue but strings and suffixes of identifiers', async () => {
    const plain = skeleton(
      glueOf(await componentWith({ module: 'zq-a', field: 'zq-a', exported: 'zq-a', source: 'zq-a' })),
    );
    await fc.assert(
      fc.asyncProperty(name, name, exportName, name, async (module, field, exported, source) => {
        const component = await componentWith({ module, field, exported, source });
        walkComponent(component);
        const glue = glueOf(component);
        parsed(glue);
        expect(skeleton(glue)).toBe(plain);
      }),
      { numRuns: propertyRuns(200) },
    );
  });

  it('with a slash are converted to identifiers of variables', async () => {
    const rest = fc.string({ unit: characters, maxLength: 12 }).filter((text) => isAllowed(`zq/${text}`));
    await fc.assert(
      fc.asyncProperty(rest, async (text) => {
        const glue = glueOf(await componentWith({ exported: `zq/${text}` }));
        parsed(glue);
        expect(glue).toMatch(/^ *[\w$]+ = exports1\['zq\/[^'\n]*'\];$/m);
      }),
      { numRuns: propertyRuns(50) },
    );
  });

  it('may be identifiers, which become members', async () => {
    const component = await componentWith({
      module: 'constructor',
      field: 'then',
      exported: 'default',
      source: 'arguments',
    });
    walkComponent(component);
    const glue = glueOf(component);
    parsed(glue);
    expect(glue).toMatch(/exports\d+(?:\.arguments|\['arguments'\])/);
  });
});

describe('disallowed names', () => {
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

  it.each(places)('are rejected as %s', async (place) => {
    for (const name of names) {
      const component = await componentWith({ [place]: name });
      let rejection: unknown;
      try {
        walkComponent(component);
      } catch (error) {
        rejection = error;
      }
      expect(rejection, name).toBeInstanceOf(InvalidComponentError);
      expect(String(rejection)).toMatch(/^[\x20-\x7e]{1,220}$/);
    }
  });

  it.each(['a/exports0', 'a/undefined', 'a/global-this', 'a/getCoreModule'])(
    'are rejected as exports: %s',
    async (name) => {
      const component = await componentWith({ exported: name });
      expect(() => walkComponent(component)).toThrow(`name "${name}" is reserved in JavaScript`);
      expect(() => checkedName(Buffer.from(name))).not.toThrow();
    },
  );

  it('are accepted in custom sections, which do not reach glue', async () => {
    const component = await componentWith({ custom: "']; globalThis.process.exit(7); ['" });
    walkComponent(component);
    expect(glueOf(component)).not.toContain('exit(7)');
  });

  it('are rejected when they are not UTF-8', () => {
    expect(() => checkedName(Uint8Array.of(0x61, 0xff))).toThrow(
      /^name "a\\u\{ff\}" contains a character that is not allowed/,
    );
  });
});

function isAllowed(name: string): boolean {
  try {
    checkedExport(Buffer.from(name));
    return true;
  } catch {
    return false;
  }
}
