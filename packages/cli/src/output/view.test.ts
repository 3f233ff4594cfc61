import { parseLossless } from '@sluice/protocol/json/parse';
import { expect, it } from 'vitest';
import { formatView } from './view.ts';

const plain = (_format: unknown, text: string) => text;

it('shows members aligned, objects and long texts below their name, numbers with their exact text', () => {
  const payload = parseLossless(`{
    "name": "echo", "description": "first\\nsecond", "labels": {},
    "input_schema": {"type": "object", "maximum": 9223372036854775807, "required": ["a", "b"]},
    "messages": [{"role": "user", "content": "hello"}, "plain"], "shadowed": true
  }`);
  expect(formatView(Object(payload), plain)).toBe(`name:     echo
description:
  first
  second
labels:   -
input_schema:
  type:     object
  maximum:  9223372036854775807
  required: a, b
messages:
  - role:    user
    content: hello
  - plain
shadowed: true
`);
});

it('escapes control sequences in names and values', () => {
  const shown = formatView({ 'a\u001b[1m': 'b\u009b2J', text: 'one\n\u001b]0;title\u0007' }, plain);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be there
  expect(shown).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
});
