import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseLossless } from '@sluice/protocol/json/parse';
import { explainError } from '../connection/explain-error.ts';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { readDocument } from '../files/document.ts';
import type { Terminal } from '../terminal/terminal.ts';
import type { EntrySelector } from './entry-api.ts';
import { type Entry, type EntryApi, formatPlace, writableMembers } from './entry-api.ts';
import { getEntry, isNewNamespace, NEW_NAMESPACE_NOTE } from './lookup.ts';

/** What came back from the editor. */
export interface EditedFile {
  readonly text: string;
  /** The file, which stays until {@link discard}. */
  readonly file: string;
  readonly discard: () => Promise<void>;
}

/**
 * Opens a text in `$VISUAL` or `$EDITOR` and waits until the operator has closed it. The file is for its owner alone.
 * Throws {@link Failure} without an editor, without a terminal, or when the editor fails.
 */
export async function openEditor({ env, stdin }: Terminal, name: string, text: string): Promise<EditedFile> {
  const editor = env.VISUAL || env.EDITOR;
  if (!editor) throw new Failure('no editor: set VISUAL or EDITOR, or give fields or --file');
  if (!stdin.isTerminal) throw new Failure('no terminal to edit on: give fields or --file');
  const folder = await mkdtemp(join(tmpdir(), 'sluice-'));
  const file = join(folder, name);
  const discard = () => rm(folder, { recursive: true, force: true });
  await writeFile(file, text, { mode: 0o600 });
  // The variable may carry arguments (`code --wait`), so a shell takes it apart, as it does for other programs.
  const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, editor, file], { stdio: 'inherit', env });
  const [code] = await once(child, 'exit');
  if (code !== 0) {
    await discard();
    throw new Failure(`${editor} ended with ${code === null ? 'a signal' : `exit code ${code}`}; nothing was changed`);
  }
  return { text: await readFile(file, 'utf8'), file, discard };
}

/** What is to become of an entry: `file`, or `fields`, or neither. */
export interface EntryChange {
  /** A file with the whole entry, or `-`. */
  readonly file: string | undefined;
  /** Makes the changed entry of the present one. */
  readonly fields: ((entry: Readonly<Record<string, unknown>>) => Promise<unknown>) | undefined;
  /** The namespace that the fields move it to. */
  readonly moveTo: string | undefined;
}

/** The entry that is edited, and how it is written back. */
interface EditSession {
  readonly api: EntryApi;
  readonly entry: Readonly<Record<string, unknown>>;
  readonly put: (changed: unknown) => Promise<Entry>;
  readonly name: string;
}

/**
 * Changes an entry: by the fields that were given, by a file with the whole of it, or, where neither was given, in the
 * operator's editor.
 */
export async function editEntry(
  context: Context,
  api: EntryApi,
  name: string,
  selection: EntrySelector,
  { file, fields, moveTo }: EntryChange,
): Promise<void> {
  if (file !== undefined && fields) throw new Failure('--file has the whole entry: give no fields with it');
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
  if (updated === undefined) output.done(entry, `${api.kind} ${name}: nothing was changed`);
  else
    output.done(
      updated,
      `changed ${api.kind} ${updated.name}${formatPlace(updated, 'in')}${isNew ? NEW_NAMESPACE_NOTE : ''}`,
    );
}

/**
 * Undefined when the text came back as it was. JSON, because that keeps every number as it is spelled. What the operator
 * has written is kept until the service has taken it.
 */
async function editInEditor(context: Context, { api, entry, put, name }: EditSession): Promise<Entry | undefined> {
  const before = `${JSON.stringify(entry, null, 2)}\n`;
  const { text, file, discard } = await openEditor(context.terminal, `${api.kind}.json`, before);
  try {
    const updated = text === before ? undefined : await put(parseLossless(text));
    await discard();
    return updated;
  } catch (error) {
    const { message, notes } = explainError(error, context.options().host);
    const again = `what was written is kept: sluice ${api.kind}s edit ${name} --file ${file}`;
    throw new Failure(message, { notes: [...notes, again], cause: error });
  }
}
