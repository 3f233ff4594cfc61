import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseLossless } from '@sluice/protocol/json/parse';
import { explainError } from '../connection/explain-error.ts';
import type { Context } from '../context.ts';
import { Exit, Failure } from '../failure.ts';
import { readDocument } from '../files/document.ts';
import type { Terminal } from '../terminal/terminal.ts';
import type { EntrySelector } from './entry-api.ts';
import { type Entry, type EntryApi, formatNamespace, writableMembers } from './entry-api.ts';
import { getEntry, isNewNamespace, NEW_NAMESPACE_NOTE } from './lookup.ts';

/** Result of an editor session. */
export interface EditedFile {
  readonly text: string;
  /** The file, which stays until {@link discard}. */
  readonly file: string;
  readonly discard: () => Promise<void>;
}

/**
 * Opens a text in `$VISUAL` or `$EDITOR` and waits until it is closed. The file is readable by its owner only. Throws
 * {@link Failure} without an editor or terminal, and when the editor fails.
 */
async function openEditor({ env, stdin }: Terminal, name: string, text: string): Promise<EditedFile> {
  const editor = env.VISUAL || env.EDITOR;
  if (!editor) throw new Failure('no editor: set VISUAL or EDITOR, or use field options or --file');
  if (!stdin.isTerminal) throw new Failure('no terminal for the editor: use field options or --file');
  const folder = await mkdtemp(join(tmpdir(), 'sluice-'));
  const file = join(folder, name);
  const discard = () => rm(folder, { recursive: true, force: true });
  await writeFile(file, text, { mode: 0o600 });
  // The variable may contain arguments (`code --wait`), so a shell splits it, as for other programs.
  const { spawn } = await import('node:child_process');
  const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, editor, file], { stdio: 'inherit', env });
  const [code] = await once(child, 'exit');
  if (code !== 0) {
    await discard();
    throw new Failure(
      `${editor} ${code === null ? 'was killed by a signal' : `exited with code ${code}`}; nothing was changed`,
    );
  }
  return { text: await readFile(file, 'utf8'), file, discard };
}

/** The change of an entry: by `file`, by `fields`, or in an editor. */
export interface EntryChange {
  /** A file with the whole entry, or `-`. */
  readonly file: string | undefined;
  /** Returns the entry with the field options applied. */
  readonly fields: ((entry: Readonly<Record<string, unknown>>) => Promise<unknown>) | undefined;
  /** undefined; | Target namespace of the field options. */
  readonly moveTo: string | undefined;
}

/** The entry that is being edited. */
interface EditSession {
  readonly api: EntryApi;
  readonly entry: Readonly<Record<string, unknown>>;
  readonly put: (changed: unknown) => Promise<Entry>;
  readonly name: string;
}

/** Edits an entry with field options, with a file, or in the editor. */
export async function editEntry(
  context: Context,
  api: EntryApi,
  name: string,
  selection: EntrySelector,
  { file, fields, moveTo }: EntryChange,
): Promise<void> {
  if (file !== undefined && fields) throw new Failure('--file replaces the whole entry: omit the other field options');
  const client = await context.connect();
  const put = (changed: unknown) => api.update(client, name, selection, changed);
  const replacement = file === undefined ? undefined : await readDocument(file, context.terminal);
  const entry = writableMembers(await getEntry(client, api, name, selection));
  const output = context.output();
  const isNew = await isNewNamespace(client, moveTo);
  const updated =
    replacement !== undefined
      ? await put(replacement)
      : fields
        ? await put(await fields(entry))
        : await editInEditor(context, { api, entry, put, name });
  if (updated === undefined) output.done(entry, `${api.kind} ${name} unchanged`);
  else
    output.done(
      updated,
      `changed ${api.kind} ${updated.name}${formatNamespace(updated, 'in')}${isNew ? NEW_NAMESPACE_NOTE : ''}`,
    );
}

/**
 * Resolves with undefined when the text is unchanged. The text is JSON, which preserves the notation of numbers. The
 * file is kept until the service has accepted it.
 */
async function editInEditor(context: Context, { api, entry, put, name }: EditSession): Promise<Entry | undefined> {
  const before = `${JSON.stringify(entry, null, 2)}\n`;
  const { text, file, discard } = await openEditor(context.terminal, `${api.kind}.json`, before);
  try {
    const updated = text === before ? undefined : await put(parseLossless(text));
    await discard();
    return updated;
  } catch (error) {
    if (error instanceof Exit) {
      await discard();
      throw error;
    }
    const { message, notes } = explainError(error, context.options().host);
    const again = `your changes are saved; to retry: sluice ${api.kind}s edit ${name} --file ${file}`;
    throw new Failure(message, { notes: [...notes, again], cause: error });
  }
}
