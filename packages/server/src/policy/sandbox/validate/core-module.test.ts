import { print } from '@bytecodealliance/jco-transpile/wasm-tools';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { propertyRuns } from '../../../../../../test/fixtures/seed.ts';
import { fastToolchains, toolchains } from '../fixtures/ordinary-actions.ts';
import { assembled } from '../fixtures/wat-component.ts';
import { tools } from './component-tools.fixture.ts';
import { boundMemories } from './core-module.ts';

/** Memories and tables that a module defines, with their limits. */
async function defined(bytes: Uint8Array): Promise<string[]> {
  return [...(await print(bytes)).matchAll(/\((memory|table) (?:\S+ )?\(;\d+;\) ([^)]*)\)/g)].map(
    ([, kind, rest]) => `${kind} ${rest}`,
  );
}

async function bounded(texts: readonly string[], pages?: number, elements?: number) {
  const modules = await Promise.all(texts.map((text) => assembled(`(module ${text})`)));
  return boundMemories(modules, pages, elements);
}

describe('maxima', () => {
  it('give the only memory the whole budget', async () => {
    const [module] = await bounded(['(memory 17)']);
    expect(module && (await defined(module.bytes))).toEqual(['memory 17 1024']);
    expect(module?.pages).toBe(1024);
  });

  it('distribute the room beyond the minimums, up to declared maximums', async () => {
    const modules = await bounded(['(memory 100)', '(memory 10 20) (func)', '(memory 4)', '(func)'], 1024);
    expect(await Promise.all(modules.map(({ bytes }) => defined(bytes)))).toEqual([
      ['memory 100 957'],
      ['memory 10 20'],
      ['memory 4 47'],
      [],
    ]);
    expect(modules.map(({ pages }) => pages)).toEqual([957, 20, 47, 0]);
  });

  it('lower declared maximums beyond the budget', async () => {
    const [module] = await bounded(['(memory 2 65536)'], 64);
    expect(module && (await defined(module.bytes))).toEqual(['memory 2 64']);
  });

  it('are set for every memory and table of a module', async () => {
    const [module] = await bounded(['(memory 1) (memory 3) (table 2 funcref) (table 1 1 externref)'], 24, 100);
    expect(module && (await defined(module.bytes))).toEqual([
      'table 2 99 funcref',
      'table 1 1 externref',
      'memory 1 7',
      'memory 3 17',
    ]);
    expect(module?.pages).toBe(24);
  });

  it('are never below the minimum', async () => {
    const [module] = await bounded(['(memory 9) (table 9 funcref)'], 4, 4);
    expect(module && (await defined(module.bytes))).toEqual(['table 9 9 funcref', 'memory 9 9']);
  });

  it('are enforced by WebAssembly', async () => {
    const [module] = await bounded(['(memory 1) (func (export "grow") (result i32) (memory.grow (i32.const 4)))'], 8);
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(module?.bytes ?? new Uint8Array()), {});
    const grow: unknown = Reflect.get(exports, 'grow');
    if (typeof grow !== 'function') throw new Error('grow is not a function');
    expect([grow(), grow()]).toEqual([1, -1]);
  });
});

describe('modules', () => {
  it('that need no change are returned as they are', async () => {
    const modules = await Promise.all(['(module (func))', '(module (memory 1 1))'].map(assembled));
    const bytes = boundMemories(modules).map((module) => module.bytes);
    expect(bytes[0]).toBe(modules[0]);
    expect(bytes[1]).toBe(modules[1]);
  });

  it('are otherwise unchanged, byte for byte', async () => {
    const limits = fc.record({
      minimum: fc.nat({ max: 200 }),
      maximum: fc.option(fc.integer({ min: 200, max: 60_000 })),
    });
    const text = ({ minimum, maximum }: { minimum: number; maximum: number | null }) => `${minimum} ${maximum ?? ''}`;
    const module = fc.record({
      memories: fc.array(limits, { maxLength: 1 }),
      tables: fc.array(limits, { maxLength: 3 }),
      types: fc.nat({ max: 300 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(module, { minLength: 1, maxLength: 5 }), async (shapes) => {
        const around = (shape: (typeof shapes)[number], bound: (kind: string, text: string) => string) => `
          ${Array.from({ length: shape.types }, (_, index) => `(func (export "f${index}"))`).join('\n')}
          ${shape.tables.map((table) => `(table ${bound('table', text(table))} funcref)`).join('\n')}
          ${shape.memories.map((memory) => `(memory ${bound('memory', text(memory))})`).join('\n')}
          (@custom "after" "more")`;
        const modules = await bounded(shapes.map((shape) => around(shape, (_, plain) => plain)));
        let elements = 0;
        for (const [index, { bytes }] of modules.entries()) {
          expect(WebAssembly.validate(bytes)).toBe(true);
          const found = await defined(bytes);
          for (const item of found) elements += Number(/^table \d+ (\d+)/.exec(item)?.[1] ?? 0);
          const next = (kind: string) => {
            const at = found.findIndex((item) => item.startsWith(kind));
            return /\d+ \d+/.exec(found.splice(at, 1)[0] ?? '')?.[0] ?? 'unbounded';
          };
          const shape = shapes[index];
          if (!shape) throw new Error('unexpected module');
          expect(Buffer.from(bytes)).toEqual(Buffer.from(await assembled(`(module ${around(shape, next)})`)));
        }
        expect(modules.reduce((sum, { pages }) => sum + pages, 0)).toBeLessThanOrEqual(1024);
        expect(elements).toBeLessThanOrEqual(400_000);
      }),
      { numRuns: propertyRuns(50) },
    );
  });

  it.each(fastToolchains)('of %s are valid', { timeout: 120_000 }, async (name) => {
    const files = tools.generate(await toolchains[name]());
    const modules = files.filter(([file]) => file.endsWith('.wasm')).map(([, bytes]) => bytes);
    const all = boundMemories(modules);
    for (const { bytes } of all) expect(WebAssembly.validate(bytes)).toBe(true);
    const pages = all.reduce((sum, module) => sum + module.pages, 0);
    expect(pages).toBeGreaterThan(0);
    expect(pages).toBeLessThanOrEqual(1024);
  });
});
