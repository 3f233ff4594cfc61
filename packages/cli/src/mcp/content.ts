import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { ContentBlock, ResourceContents } from '@modelcontextprotocol/client';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { errorCode, errorReason } from '../files/system-error.ts';
import { sanitizeLine, sanitizeText } from '../terminal/text.ts';

/** Formats content: text as is, anything else as a line with its type, size and saved file. */
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

/** Formats the contents of a resource likewise. */
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

/** Writes bytes to a new file and resolves with its path. */
export type Saver = (bytes: Buffer, mimeType: string | undefined) => Promise<string>;

const EXTENSIONS: ReadonlyMap<string, string> = new Map([
  ['image/jpeg', 'jpg'],
  ['image/svg+xml', 'svg'],
  ['audio/mpeg', 'mp3'],
  ['audio/x-wav', 'wav'],
  ['text/plain', 'txt'],
]);
const MAX_FILES = 10_000;

/** Creates the saver for `--save`. Throws {@link Failure} with JSON or YAML output. */
export function createSaver(folder: string | undefined, { terminal, output }: Context): Saver | undefined {
  if (folder === undefined) return undefined;
  const { isStructured, format } = output();
  if (isStructured) throw new Failure(`--save cannot be used with --output ${format}, which contains all content`);
  return saveToFolder(resolve(terminal.cwd, folder));
}

/** Saves to `content-1.png`, `content-2.wav` ... in a folder, which is created. Existing files are kept. */
function saveToFolder(folder: string): Saver {
  let next = 1;
  return async (bytes, mimeType) => {
    try {
      await mkdir(folder, { recursive: true });
      for (; next <= MAX_FILES; next++) {
        const path = join(folder, `content-${next}.${fileExtension(mimeType)}`);
        if (await writeNewFile(path, bytes)) {
          next++;
          return path;
        }
      }
    } catch (error) {
      throw new Failure(`--save: ${folder} cannot be written to: ${errorReason(error) ?? error}`, { cause: error });
    }
    throw new Failure(`--save: ${folder} contains too many files; use another folder`);
  };
}

async function writeNewFile(path: string, bytes: Buffer): Promise<boolean> {
  try {
    await writeFile(path, bytes, { flag: 'wx' });
    return true;
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    throw error;
  }
}

/** Letters and digits only, because the server chooses the type. */
function fileExtension(mimeType = ''): string {
  const type = mimeType.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return EXTENSIONS.get(type) ?? /^[a-z]+\/([a-z0-9]{1,8})$/.exec(type)?.[1] ?? 'bin';
}
