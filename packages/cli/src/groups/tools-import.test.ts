import { parseLossless } from '@sluice/protocol/json/parse';
import { describe, expect, it } from 'vitest';
import { Failure } from '../failure.ts';
import { parseTools } from './tools-import.ts';

const tool = (name: string, more: object = {}) => ({
  name,
  description: '',
  uri: 'http://127.0.0.1:1/mcp',
  toolType: 'mcp-forward',
  input_schema: { type: 'object' },
  ...more,
});
const read = (value: unknown) => parseTools(parseLossless(JSON.stringify(value)), 'tools.json');
const notesOf = async (value: unknown): Promise<readonly string[]> => {
  try {
    await read(value);
  } catch (error) {
    if (error instanceof Failure) return error.notes;
  }
  return [];
};

describe('tools of a file', () => {
  it('are read from an array or from an object, in order, with unknown members', async () => {
    const tools = [tool('b', { extra: [1] }), tool('a')];
    expect(await read(tools)).toEqual(tools);
    expect(await read({ tools })).toEqual(tools);
  });

  it('are all validated, with the position of each problem', async () => {
    expect(await notesOf([tool('a'), { name: 'b' }, tool('c', { input_schema: 3 }), 7])).toEqual([
      'tool 2 (b): description: is required',
      'tool 2 (b): uri: is required',
      'tool 2 (b): toolType: is required',
      'tool 2 (b): input_schema: is required',
      'tool 3 (c): input_schema: must be an object',
      'tool 4: must be an object',
    ]);
  });

  it('may share a name only in different namespaces', async () => {
    expect(await read([tool('a'), tool('a', { namespace: 'finance' })])).toHaveLength(2);
    expect(await notesOf([tool('a'), tool('x'), tool('a', { namespace: 'default' })])).toEqual([
      'tool 3 (a): same name as tool 1 in default',
    ]);
  });

  it('with many problems report only the first ones', async () => {
    const notes = await notesOf(Array.from({ length: 1000 }, () => ({})));
    expect(notes).toHaveLength(21);
    expect(notes.at(-1)).toBe('and 4980 more');
  });

  it('are rejected in any other form', async () => {
    await expect(read({ tool: [] })).rejects.toThrow(
      'tools.json: expected an array of tools, or an object with "tools"',
    );
  });
});
