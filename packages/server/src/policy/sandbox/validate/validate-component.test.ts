import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { propertyRuns } from '../../../../../../test/fixtures/seed.ts';
import { coreActionText, writtenAction } from '../fixtures/hostile/core-action.ts';
import { fastToolchains, toolchains } from '../fixtures/ordinary-actions.ts';
import { ordinaryWat } from '../fixtures/ordinary-wat.ts';
import { componentOfCore } from '../fixtures/wat-component.ts';
import { walkComponent } from './component.ts';
import { glueOf, parsed, validate } from './component-tools.fixture.ts';
import { COMPONENT_LIMITS, InvalidComponentError } from './reader.ts';

const small = await componentOfCore(ordinaryWat);
// Start of the export of a function.
const beforeExport = Buffer.from(small).lastIndexOf('\0\bevaluate\x01');

describe('components of toolchains pass', () => {
  it.each(fastToolchains)('%s', { timeout: 120_000 }, async (name) => {
    const bytes = await toolchains[name]();
    validate(bytes);
    const { coreModules, memoryPages } = walkComponent(bytes);
    expect(coreModules).toBeGreaterThan(0);
    expect(memoryPages).toBeGreaterThan(0);
  });
});

describe('a file that is not a component', () => {
  it('is rejected with a description', () => {
    const core = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);
    expect(() => validate(core)).toThrow(/^a core module, not a component: componentize it/);
    for (const source of ['export function evaluate() {}', 'pass;']) {
      expect(() => validate(new TextEncoder().encode(source))).toThrow(
        /^not a component: .* with sluice action build$/,
      );
    }
    expect(() => validate(new Uint8Array())).toThrow(/^not a component: the file is empty/);
  });

  it('is rejected without parsing when it is too large', () => {
    expect(() => validate(new Uint8Array(COMPONENT_LIMITS.fileBytes + 1))).toThrow(
      /component too large: 31457281 bytes, maximum 31457280/,
    );
  });

  it('is rejected with the message of the tools', async () => {
    const broken = await writtenAction(coreActionText({ evaluate: '' }), { after: '(export "more" (func 99))' });
    expect(() => validate(broken)).toThrow(
      /^not a valid component: unknown function 99: function index out of bounds .*; rebuild the action$/,
    );
  });
});

describe('hostile bytes', () => {
  /** Whether bytes pass; a rejection must have a printable message of at most 200 characters. */
  function passes(bytes: Uint8Array): boolean {
    try {
      validate(bytes);
      return true;
    } catch (error) {
      if (!(error instanceof InvalidComponentError)) throw error;
      expect(error.message).toMatch(/^[\x20-\x7e]{1,200}$/);
      return false;
    }
  }

  /** Generates glue; empty for invalid function bodies, which only jco validates and reports as a payload. */
  function glueUnlessInvalid(bytes: Uint8Array): string {
    try {
      return glueOf(bytes);
    } catch (error) {
      if (error instanceof Error && 'payload' in error) return '';
      throw error;
    }
  }

  it('without structure are rejected', () => {
    const header = fc.constantFrom([], [0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0], [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
    fc.assert(
      fc.property(header, fc.uint8Array({ minLength: 1, maxLength: 200 }), (start, bytes) => {
        expect(passes(Uint8Array.from([...start, ...bytes]))).toBe(false);
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  it('of a truncated component are rejected', () => {
    for (let length = 0; length < small.length; length += 1) {
      // Only custom sections, which may be missing, come after the export.
      if (passes(small.subarray(0, length))) expect(length).toBeGreaterThan(beforeExport);
    }
  });

  it('replaced in a component lead to nothing but acceptance or rejection', () => {
    const change = fc.tuple(fc.nat({ max: small.length - 1 }), fc.nat({ max: 255 }));
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 4 }), (changes) => {
        const bytes = Uint8Array.from(small);
        for (const [at, byte] of changes) bytes[at] = byte;
        if (passes(bytes)) parsed(glueUnlessInvalid(bytes));
      }),
      { numRuns: propertyRuns(500) },
    );
  });
});
