import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { propertyRuns } from '../../../../../../test/fixtures/seed.ts';
import { coreActionText, writtenAction } from '../fixtures/hostile/core-action.ts';
import { fastToolchains, toolchains } from '../fixtures/ordinary-actions.ts';
import { ordinaryWat } from '../fixtures/ordinary-wat.ts';
import { componentOfCore } from '../fixtures/wat-component.ts';
import { walkComponent } from './component.ts';
import { glueOf, judged, parsed } from './component-tools.fixture.ts';
import { InvalidComponentError, limits } from './reader.ts';

const small = await componentOfCore(ordinaryWat);
// What an export of a function begins with.
const beforeExport = Buffer.from(small).lastIndexOf('\0\bevaluate\x01');

describe('components of toolchains pass', () => {
  it.each(fastToolchains)('%s', { timeout: 120_000 }, async (name) => {
    const bytes = await toolchains[name]();
    judged(bytes);
    const { coreModules, memoryPages } = walkComponent(bytes);
    expect(coreModules).toBeGreaterThan(0);
    expect(memoryPages).toBeGreaterThan(0);
  });
});

describe('what is no component', () => {
  it('is refused with what it is', () => {
    const core = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);
    expect(() => judged(core)).toThrow(/^a core module, not a component: componentize it/);
    for (const source of ['export function evaluate() {}', 'pass;']) {
      expect(() => judged(new TextEncoder().encode(source))).toThrow(
        /^not a component: .* sluice action build makes one/,
      );
    }
    expect(() => judged(new Uint8Array())).toThrow(/^not a component: the file is empty/);
  });

  it('is not looked at when it is too large', () => {
    expect(() => judged(new Uint8Array(limits.fileBytes + 1))).toThrow(/has 31457281 bytes, actions may have 31457280/);
  });

  it('is refused with what the tools say of it', async () => {
    const broken = await writtenAction(coreActionText({ evaluate: '' }), { after: '(export "more" (func 99))' });
    expect(() => judged(broken)).toThrow(
      /^not a valid component: unknown function 99: function index out of bounds .*; build the action anew$/,
    );
  });
});

describe('hostile bytes', () => {
  /** Only ever a refusal with a printable message of at most 200 characters; true when it passes. */
  function passes(bytes: Uint8Array): boolean {
    try {
      judged(bytes);
      return true;
    } catch (error) {
      if (!(error instanceof InvalidComponentError)) throw error;
      expect(error.message).toMatch(/^[\x20-\x7e]{1,200}$/);
      return false;
    }
  }

  /** Bodies of functions are validated by jco only, which throws its refusal as a payload. */
  function glueUnlessInvalid(bytes: Uint8Array): string {
    try {
      return glueOf(bytes);
    } catch (error) {
      if (error instanceof Error && 'payload' in error) return '';
      throw error;
    }
  }

  it('of no kind are refused', () => {
    const header = fc.constantFrom([], [0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0], [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
    fc.assert(
      fc.property(header, fc.uint8Array({ minLength: 1, maxLength: 200 }), (start, bytes) => {
        expect(passes(Uint8Array.from([...start, ...bytes]))).toBe(false);
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  it('that a component was cut off at are refused', () => {
    for (let length = 0; length < small.length; length += 1) {
      // What comes after the export are custom sections, which may be missing.
      if (passes(small.subarray(0, length))) expect(length).toBeGreaterThan(beforeExport);
    }
  });

  it('in place of some of a component never do anything but pass or be refused', () => {
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
