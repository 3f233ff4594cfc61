import { describe, expect, it } from 'vitest';
import { loggablePath, toldUri } from './correlation.ts';

describe("a request's target", () => {
  it.each([
    ['/default/mcp', '/default/mcp'],
    ['/v1/models?api_key=secret', '/v1/models'],
    ['/a#secret', '/a'],
    ['/?secret', '/'],
    ['//user:secret@host/a', '//user:secret@host/a'],
    ['http://user:secret@host:1/a/b?secret', '/a/b'],
    ['HTTPS://user:secret@host?secret', ''],
    ['*', '*'],
  ])('%s is told as %s', (target, told) => {
    expect(loggablePath(target)).toBe(told);
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
  ])('%s is told as %s', (uri, told) => {
    expect(toldUri(uri)).toBe(told);
  });
});

it('is cut where it is longer than anybody reads', () => {
  expect(loggablePath(`/${'a'.repeat(2_000)}`)).toHaveLength(1_024);
  expect(toldUri(`a://${'a'.repeat(2_000)}`)).toHaveLength(1_024);
});
