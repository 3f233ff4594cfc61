import { describe, expect, it } from 'vitest';
import { boundedSubject, loggableMethod, loggablePath, loggableUri } from './redaction.ts';

describe('the target of a request', () => {
  it.each([
    ['/default/mcp', '/default/mcp'],
    ['/v1/models?api_key=secret', '/v1/models'],
    ['/a#secret', '/a'],
    ['/?secret', '/'],
    ['//user:secret@host/a', '//user:secret@host/a'],
    ['http://user:secret@host:1/a/b?secret', '/a/b'],
    ['HTTPS://user:secret@host?secret', ''],
    ['*', '*'],
  ])('%s is logged as %s', (target, expected) => {
    expect(loggablePath(target)).toBe(expected);
  });
});

describe('the uri of a resource', () => {
  it.each([
    ['file:///notes', 'file:///notes'],
    ['https://host/a?token=secret', 'https://host/a'],
    ['postgres://user:secret@host/table#secret', 'postgres://host/table'],
    ['postgres://us@er:secret@host', 'postgres://host'],
    ['mailto:somebody@host', 'mailto:somebody@host'],
    ['db://host/a@b', 'db://host/a@b'],
  ])('%s is logged as %s', (uri, expected) => {
    expect(loggableUri(uri)).toBe(expected);
  });
});

it('truncates long addresses', () => {
  expect(loggablePath(`/${'a'.repeat(2_000)}`)).toHaveLength(1_024);
  expect(loggableUri(`a://${'a'.repeat(2_000)}`)).toHaveLength(1_024);
});

it.each([
  ['a short name', 'quote', 'quote'],
  ['the longest that is whole', 'x'.repeat(256), 'x'.repeat(256)],
  ['a longer one', `${'x'.repeat(256)}y`, 'x'.repeat(256)],
  ['one whose last character would be cut in two', `${'x'.repeat(255)}\u{1f600}`, 'x'.repeat(255)],
  ['one whose last character is whole', `${'x'.repeat(254)}\u{1f600}y`, `${'x'.repeat(254)}\u{1f600}`],
])('%s is truncated to its limit', (_case, name, expected) => {
  expect(boundedSubject({ kind: 'tool', name })).toEqual({ kind: 'tool', name: expected });
});

it('a short name is not copied', () => {
  const subject = { kind: 'prompt', name: 'greeting' } as const;
  expect(boundedSubject(subject)).toBe(subject);
});

it('a method is truncated to its limit', () => {
  expect(loggableMethod('tools/call')).toBe('tools/call');
  expect(loggableMethod('x'.repeat(2_000))).toHaveLength(1_024);
});
