import type { ContentBlock, ResourceContents } from '@modelcontextprotocol/client';
import { harmlessLine, harmlessText } from '../terminal/harmless.ts';
import type { Saver } from './saver.ts';

/** Content for people: text as text, anything else as a line that says what it is, and where it has been saved. */
export async function describeBlock(block: ContentBlock, save: Saver | undefined): Promise<string> {
  switch (block.type) {
    case 'text':
      return harmlessText(block.text);
    case 'image':
    case 'audio':
      return binary([block.type, block.mimeType], block.mimeType, block.data, save);
    case 'resource_link':
      return bracketed(['resource', block.uri, block.mimeType, block.title ?? block.name]);
    case 'resource':
      return describeContents(block.resource, save);
  }
}

/** The same for what a resource holds. */
export async function describeContents(contents: ResourceContents, save: Saver | undefined): Promise<string> {
  if ('text' in contents && typeof contents.text === 'string') return harmlessText(contents.text);
  if (!('blob' in contents) || typeof contents.blob !== 'string') return bracketed(['resource', contents.uri, 'empty']);
  return binary(['resource', contents.uri, contents.mimeType], contents.mimeType, contents.blob, save);
}

async function binary(
  what: readonly (string | undefined)[],
  mimeType: string | undefined,
  base64: string,
  save: Saver | undefined,
): Promise<string> {
  const bytes = Buffer.from(base64, 'base64');
  const path = await save?.(bytes, mimeType);
  return bracketed([...what, `${bytes.length} bytes`, path === undefined ? undefined : `saved as ${path}`]);
}

function bracketed(parts: readonly (string | undefined)[]): string {
  return harmlessLine(`[${parts.filter((part) => part !== undefined).join(', ')}]`);
}
