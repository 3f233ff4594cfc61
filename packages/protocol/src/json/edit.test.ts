import { expect, test } from 'vitest';
import { ChunkBuffer } from '../chunk-buffer.ts';
import { applyEdits, editBytes } from './text.ts';

test('without edits the text is unchanged', () => {
  expect(applyEdits('{"a":1.0}', [])).toBe('{"a":1.0}');
});

test('edits replace, insert and remove, in any order', () => {
  const edits = [
    { start: 8, end: 10, text: 'IJ…' },
    { start: 0, end: 0, text: '>' },
    { start: 2, end: 5, text: '' },
    { start: 5, end: 6, text: 'F' },
  ];
  for (const order of [edits, edits.toReversed(), [...edits].sort((a, b) => a.text.length - b.text.length)]) {
    expect(applyEdits('abcdefghij', order)).toBe('>abFghIJ…');
    expect(Buffer.concat(editBytes(ChunkBuffer.of(Buffer.from('abcdefghij')), order)).toString()).toBe('>abFghIJ…');
  }
});

test('the given edits are not modified', () => {
  const edits = [
    { start: 2, end: 3, text: 'x' },
    { start: 0, end: 1, text: 'y' },
  ];
  const before = structuredClone(edits);
  applyEdits('abc', edits);
  expect(edits).toEqual(before);
});
