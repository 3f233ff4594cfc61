import { expect, test } from 'vitest';
import { hasDotSegments } from './legacy-backend.ts';

test.each([
  '/..',
  '/.',
  '/a/../b',
  '/a/./b',
  '/%2e',
  '/a/%2E%2e',
  '/a/.%2e/',
  '/a%2f..',
  '/a%5C.',
  '/a\\..\\b',
  '/..;x/',
  '/.;',
])('%s may resolve to another path', (path) => expect(hasDotSegments(path)).toBe(true));

test.each([
  '/',
  '/a',
  '/a.b',
  '/.a',
  '/..a',
  '/a..',
  '/...',
  '/a/.b/c..',
  '/%252e%252e/',
  '/a;..',
  '/%2ea',
  '/;.',
  '/a%2f.b',
])('%s resolves to itself', (path) => expect(hasDotSegments(path)).toBe(false));
