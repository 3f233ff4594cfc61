import type { ContentBlock, ResourceContents } from '@modelcontextprotocol/client';
import { sanitizeLine, sanitizeText } from '../terminal/harmless.ts';
import type { Saver } from './saver.ts';

/** Content for people: text as text, anything else as a line that says what it is, and where it has been saved. */
export async function formatBlock(block: ContentBlock, save: Saver | undefined): Promise<string> {
  switch (block.type) {
    case 'text':
      return sanitizeText(block.text);
    case 'image':
    case 'audio':
      return formatBinary([block.type, block.mimeType], block.mimeType, block.data, save);
    case 'resource_link':
      return formatBrackets(['resource', block.uri, block.mimeType, block.title ?? block.name]);
    case 'resource':
      return formatContents(block.resource, save);
  }
}

/** The same for what a resource holds. */
export async function formatContents(contents: ResourceContents, save: Saver | undefined): Promise<string> {
  if ('text' in contents && typeof contents.text === 'string') return sanitizeText(contents.text);
  if (!('blob' in contents) || typeof contents.blob !== 'string')
    return formatBrackets(['resource', contents.uri, 'empty']);
  return formatBinary(['resource', contents.uri, contents.mimeType], contents.mimeType, contents.blob, save);
}

async function formatBinary(
  what: readonly (string | undefined)[],
  mimeType: string | undefined,
  base64: string,
  save: Saver | undefined,
): Promise<string> {
  const bytes = Buffer.from(base64, 'base64');
  const path = await save?.(bytes, mimeType);
  return formatBrackets([...what, `${bytes.length} bytes`, path === undefined ? undefined : `saved as ${path}`]);
}

function formatBrackets(parts: readonly (string | undefined)[]): string {
  return sanitizeLine(`[${parts.filter((part) => part !== undefined).join(', ')}]`);
}
