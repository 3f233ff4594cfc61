import { describe, expect, it } from 'vitest';
import { capabilityKey, chooseVariant, FULL_CAPABILITIES, NO_CAPABILITIES } from './capabilities.ts';

describe('capabilityKey', () => {
  it('is equal for sets that mean the same', () => {
    const key = capabilityKey({ sampling: { tools: {}, context: {} }, roots: {} });
    expect(capabilityKey({ roots: { listChanged: true }, sampling: { context: {}, tools: {} } })).toBe(key);
    expect(capabilityKey({ roots: {}, sampling: { context: {}, tools: {} }, tasks: null })).toBe(key);
    expect(capabilityKey({ elicitation: {} })).toBe(capabilityKey({ elicitation: { form: {} } }));
    expect(capabilityKey({})).toBe('{}');
  });

  it('differs for sets that do not', () => {
    const keys = [
      {},
      { roots: {} },
      { sampling: {} },
      { sampling: { tools: {} } },
      { elicitation: {} },
      { elicitation: { url: {} } },
      { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['a', 'b'] } } },
      { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['b', 'a'] } } },
      JSON.parse('{"extensions":{"__proto__":{"a":1}}}'),
    ].map(capabilityKey);
    expect(new Set(keys).size).toBe(keys.length);
  });

  it('survives sets nested deeper than the stack', () => {
    const deep = JSON.parse(`${'{"a":'.repeat(100_000)}{}${'}'.repeat(100_000)}`);
    expect(capabilityKey(deep).length).toBeLessThan(200);
  });
});

describe('chooseVariant', () => {
  const none = { name: 'none', capabilities: NO_CAPABILITIES };
  const full = { name: 'full', capabilities: FULL_CAPABILITIES };
  const sampling = { name: 'sampling', capabilities: { sampling: {} } };
  const form = { name: 'form', capabilities: { elicitation: {} } };

  it('chooses the equal one', () => {
    expect(chooseVariant([none, sampling, full], { sampling: {}, roots: {}, elicitation: { form: {}, url: {} } })).toBe(
      full,
    );
    expect(chooseVariant([none, sampling, full], { sampling: {} })).toBe(sampling);
    expect(chooseVariant([none, sampling, full], {})).toBe(none);
  });

  it("otherwise the largest subset of the client's capabilities", () => {
    expect(chooseVariant([none, full], { sampling: {}, roots: {} })).toBe(none);
    expect(chooseVariant([none, sampling, full], { sampling: { tools: {} }, roots: {} })).toBe(sampling);
    expect(chooseVariant([none, sampling, form, full], { sampling: {}, elicitation: { form: {}, url: {} } })).toBe(
      form,
    );
    expect(chooseVariant([none, full], { ...FULL_CAPABILITIES, tasks: { list: {} } })).toBe(full);
  });

  it('chooses none when all require more', () => {
    expect(chooseVariant([full], {})).toBeUndefined();
  });
});
