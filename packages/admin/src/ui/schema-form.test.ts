import fc from 'fast-check';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test } from 'vitest';
import { anyObjectSchema, fieldTexts } from '../../../../test/fixtures/any-schema.ts';
import { propertyRuns, testSeed } from '../../../../test/fixtures/seed.ts';
import { formSchema } from './form-schema.ts';
import { initialValue, sentValue } from './form-value.ts';
import { SchemaForm } from './schema-form.tsx';

/** The texts and choices that a form shows at first, by the path of their fields; those of lists by the path of the item. */
function shownFields(schema: Readonly<Record<string, unknown>>): Record<string, string> {
  const value = initialValue(formSchema(schema));
  const reported: unknown[] = [];
  const onChange = (changed: unknown): void => void reported.push(changed);
  const html = renderToStaticMarkup(createElement(SchemaForm, { schema, value, onChange }));
  // The form would show something else than its owner has.
  expect(reported).toEqual([]);
  return readFields(html);
}

function readFields(html: string): Record<string, string> {
  const fields: [string, string][] = [];
  for (const [, attributes = ''] of html.matchAll(/<input ([^>]*)>/g)) {
    const id = /\bid="root_([^"]*)"/.exec(attributes)?.[1];
    const text = /\bvalue="([^"]*)"/.exec(attributes)?.[1] ?? '';
    if (id !== undefined && !attributes.includes('type="checkbox"')) fields.push([id, withoutEntities(text)]);
  }
  for (const [, id = '', text = ''] of html.matchAll(/<textarea id="root_([^"]*)"[^>]*>([^<]*)</g))
    fields.push([id, withoutEntities(text)]);
  for (const [, id = '', options = ''] of html.matchAll(/<select id="root_([^"]*)"[^>]*>(.*?)<\/select>/gs)) {
    const selected = /<option value="[^"]*" selected="">([^<]*)</.exec(options)?.[1] ?? '';
    // Which alternative is shown is no value.
    if (!/__(?:one|any)of_select$/.test(id)) fields.push([id, withoutEntities(selected)]);
  }
  return Object.fromEntries(fields.filter(([, text]) => text !== ''));
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#x27': "'" };

function withoutEntities(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#x27);/g, (entity, name: string) => ENTITIES[name] ?? entity);
}

test('what a form sends is what it shows, for any schema', () => {
  fc.assert(
    fc.property(anyObjectSchema, (schema) => {
      const sent = sentValue(initialValue(formSchema(schema)), schema);
      expect(shownFields(schema)).toEqual(fieldTexts(sent));
    }),
    { numRuns: propertyRuns(1500), seed: testSeed() },
  );
});

const CHOICE = { enum: ['open', 'closed'] };
const KIND = { const: 'all' };

test.each([
  ['a default', { properties: { limit: { type: 'integer', default: 20 } } }, { limit: 20 }],
  ['an optional choice', { properties: { status: CHOICE } }, {}],
  ['a required choice', { required: ['status'], properties: { status: CHOICE } }, {}],
  ['a choice with a default', { properties: { status: { ...CHOICE, default: 'open' } } }, { status: 'open' }],
  [
    'a titled choice',
    { properties: { status: { oneOf: [{ const: 'open', title: 'Open' }, { const: 'closed' }] } } },
    {},
  ],
  ['an optional constant', { properties: { kind: KIND } }, {}],
  ['a required constant', { required: ['kind'], properties: { kind: KIND } }, { kind: 'all' }],
  ['a required Boolean value', { required: ['all'], properties: { all: { type: 'boolean' } } }, {}],
  ['false', { properties: { all: { type: 'boolean', default: false } } }, { all: false }],
  ['a default that is no choice', { properties: { status: { ...CHOICE, default: 'lost' } } }, {}],
  ['a default of another type', { properties: { limit: { type: 'integer', default: 'many' } } }, {}],
  ['several lines', { properties: { text: { type: 'string', default: 'a\nb' } } }, { text: 'a\nb' }],
  ['an optional list', { properties: { tags: { type: 'array', minItems: 2, items: CHOICE } } }, {}],
  ['a required list', { required: ['tags'], properties: { tags: { type: 'array', items: CHOICE } } }, { tags: [] }],
  [
    'a required object',
    { required: ['filter'], properties: { filter: { type: 'object', properties: { status: CHOICE } } } },
    { filter: {} },
  ],
  [
    'a required object that is defined elsewhere',
    { required: ['filter'], properties: { filter: { $ref: '#/$defs/filter' } }, $defs: { filter: { type: 'object' } } },
    { filter: {} },
  ],
  [
    'an optional object with a constant',
    { properties: { filter: { type: 'object', required: ['kind'], properties: { kind: KIND } } } },
    {},
  ],
  [
    'the first of several objects',
    { required: ['filter'], properties: { filter: { oneOf: [{ required: ['kind'], properties: { kind: KIND } }] } } },
    { filter: { kind: 'all' } },
  ],
  [
    'members named like keywords',
    { properties: { default: { type: 'string', default: 'a' }, enum: { type: 'string' }, title: { type: 'string' } } },
    { default: 'a' },
  ],
])('sends of %s only what the schema says', (_name, properties, sent) => {
  const schema = { type: 'object', ...properties };
  expect(sentValue(initialValue(formSchema(schema)), schema)).toEqual(sent);
});

test('leaves out what has been emptied', () => {
  const schema = { type: 'object', required: ['needed'], properties: { needed: { type: 'object' } } };
  const typed = {
    name: undefined,
    tags: ['a', undefined],
    filter: { status: undefined },
    needed: { status: undefined },
  };
  expect(sentValue(typed, schema)).toEqual({ tags: ['a'], needed: {} });
});
