import { describe, expect, it } from 'vitest';
import { legacyTool } from './client-profile.ts';

const INPUT = '"inputSchema":{"type":"object"}';

describe('an output schema', () => {
  it.each([
    '{"type":"array","items":{"type":"string"}}',
    '{"type":["object","null"]}',
    '{"anyOf":[{"type":"object"},{"type":"object"}]}',
    '{}',
    'true',
    'null',
    '[]',
    '"object"',
  ])('that does not describe an object is removed: %s', (schema) => {
    expect(legacyTool(`{"name":"a",${INPUT},"outputSchema":${schema}}`)).toBe(`{"name":"a",${INPUT}}`);
  });

  it.each([
    '{"type":"object"}',
    '{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"type":"array"}}}',
    '{ "type" : "\\u006fbject" }',
    '{"type":"array","type":"object"}',
  ])('that describes an object stays unchanged: %s', (schema) => {
    const text = `{"name":"a",${INPUT},"outputSchema":${schema}}`;
    expect(legacyTool(text)).toBe(text);
  });

  it('is removed without a trace, and the rest keeps its text', () => {
    const rest = '"n": 1.0,\t"x":9223372036854775807 ,"é":"\\u00e9"';
    const schema = '"outputSchema" : {"type":"array"}';
    expect(legacyTool(`{${schema}, ${rest}}`)).toBe(`{ ${rest}}`);
    expect(legacyTool(`{"a":"\\"outputSchema\\":", ${schema} , ${rest} }`)).toBe(
      `{"a":"\\"outputSchema\\":" , ${rest} }`,
    );
    expect(legacyTool(`{${rest},${schema}\n}`)).toBe(`{${rest}\n}`);
  });

  it('is found under an escaped key, and the last of two counts', () => {
    expect(legacyTool(`{"name":"a","output\\u0053chema":{"type":"array"}}`)).toBe('{"name":"a"}');
    expect(legacyTool(`{"outputSchema":{"type":"object"},"name":"a","outputSchema":{}}`)).toBe('{"name":"a"}');
    const last = `{"outputSchema":{},"name":"a","outputSchema":{"type":"object"}}`;
    expect(legacyTool(last)).toBe(last);
  });

  it('is that of the tool, not one of the same name deeper down', () => {
    const text = `{"name":"a",${INPUT},"_meta":{"outputSchema":{"type":"array"}}}`;
    expect(legacyTool(text)).toBe(text);
  });
});

describe('a property whose schema is true or false', () => {
  const tool = (properties: string, more = '') =>
    `{"name":"a","inputSchema":{"type":"object","properties":${properties}${more}}}`;

  it.each([
    ['{"any":true}', '{"any":{}}'],
    ['{"none":false}', '{"none":{"not":{}}}'],
    ['{ "any" :\ttrue , "n": {"default":1.0} }', '{ "any" :\t{} , "n": {"default":1.0} }'],
    ['{"a":{"type":"string"} , "any":true,"none":false}', '{"a":{"type":"string"} , "any":{},"none":{"not":{}}}'],
    ['{"default":true,"readOnly":false}', '{"default":{},"readOnly":{"not":{}}}'],
    ['{"a\\"\\\\":true}', '{"a\\"\\\\":{}}'],
    ['{"":true}', '{"":{}}'],
  ])('gets an object that means the same: %s', (properties, instead) => {
    expect(legacyTool(tool(properties))).toBe(tool(instead));
  });

  it('is replaced at any position', () => {
    expect(legacyTool('{"inputSchema":{"prop\\u0065rties":{"a":true}}}')).toBe(
      '{"inputSchema":{"prop\\u0065rties":{"a":{}}}}',
    );
    expect(legacyTool(`{${INPUT},"outputSchema":{"properties":{"a":true},"type":"object"}}`)).toBe(
      `{${INPUT},"outputSchema":{"properties":{"a":{}},"type":"object"}}`,
    );
    expect(legacyTool(`{"outputSchema":{"properties":{"a":true}},"inputSchema":{"properties":{"a":true}}}`)).toBe(
      `{"inputSchema":{"properties":{"a":{}}}}`,
    );
  });

  it.each([
    tool('{"a":{"type":"string"}}', ',"additionalProperties":false'),
    tool('{"a":{"type":"boolean","default":true}}', ',"additionalProperties":true,"required":["a"]'),
    tool('{"a":{"type":"object","properties":{"any":true}}}', ',"$defs":{"any":true}'),
    tool('{}', ',"unevaluatedProperties":false'),
    `{"name":"a",${INPUT},"annotations":{"readOnlyHint":true},"properties":{"a":true},"_meta":{"properties":{"a":true}}}`,
  ])('is not a boolean member: %s', (text) => {
    expect(legacyTool(text)).toBe(text);
  });
});

it('survives texts of any length', () => {
  const long = 'x'.repeat(20_000_000);
  const text = `{"name":"a",${INPUT},"_meta":{"a":{},"${long}":"},${long}"}}`;
  expect(legacyTool(text) === text).toBe(true);
});
