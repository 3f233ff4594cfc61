import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import { expect, it } from 'vitest';
import { DEFAULT_NAMESPACE, type Entry } from '../../registry/entries.ts';
import { expandPrompt } from './calls.ts';

function prompt(messages: JsonValue[], definition: JsonObject = {}): Entry {
  return {
    kind: 'prompt',
    namespace: DEFAULT_NAMESPACE,
    key: 'p',
    name: 'p',
    registrationId: 1,
    position: 0,
    labels: {},
    members: { messages },
    discovered: undefined,
    definition,
    rendered: [],
  };
}

/** The texts of the messages rendered from these templates. */
function texts(templates: string[], given: JsonValue | undefined): unknown {
  const expanded = expandPrompt(prompt(templates.map((content) => ({ role: 'user', content }))), given);
  if ('missing' in expanded) throw new Error(expanded.missing);
  const { messages } = expanded.result;
  return Array.isArray(messages)
    ? messages.map((message) => JSON.parse(JSON.stringify(message)).content.text)
    : messages;
}

it('replaces placeholders by arguments in one pass', () => {
  expect(texts(['{a} and {b} and {a}'], { a: '{b}', b: '$& {a}' })).toEqual(['{b} and $& {a} and {b}']);
});

it('leaves placeholders without an argument unchanged', () => {
  expect(texts(['{a} {unknown} {} {{a}} { a } {toString} {__proto__}'], { a: '1' })).toEqual([
    '1 {unknown} {} {1} { a } {toString} {__proto__}',
  ]);
  expect(texts(['{a}'], undefined)).toEqual(['{a}']);
  expect(texts(['{a}'], 'no object')).toEqual(['{a}']);
});

it('an argument that is not a string is inserted as JSON', () => {
  expect(texts(['{n} {b} {z} {o}'], { n: 1.5, b: true, z: null, o: { x: [1] } })).toEqual(['1.5 true null {"x":[1]}']);
});

it('turns strings into text content, keeps objects, and maps system to user', () => {
  const image = { type: 'image', data: '{a}', mimeType: 'image/png' };
  const expanded = expandPrompt(
    prompt(
      [
        { role: 'system', content: 'be {a}' },
        { role: 'assistant', content: 'ok' },
        { role: 'user', content: image },
      ],
      { description: 'says {a}' },
    ),
    { a: 'kind' },
  );
  expect(expanded).toEqual({
    result: {
      description: 'says {a}',
      messages: [
        { role: 'user', content: { type: 'text', text: 'be kind' } },
        { role: 'assistant', content: { type: 'text', text: 'ok' } },
        { role: 'user', content: image },
      ],
    },
  });
});

it('a prompt without messages and description is an empty one', () => {
  expect(expandPrompt(prompt([], { description: '' }), {})).toEqual({ result: { messages: [] } });
});

it.each(['topic', 'constructor', '__proto__'])('rejects a missing required argument %s', (name) => {
  const needy = prompt([], {
    arguments: [{ name: 'other', required: false }, { name, required: true }, { name: 'plain' }],
  });
  expect(expandPrompt(needy, {})).toEqual({ missing: name });
  expect(expandPrompt(needy, undefined)).toEqual({ missing: name });
  expect(expandPrompt(needy, JSON.parse(`{"${name}":""}`))).toEqual({ result: { messages: [] } });
});
