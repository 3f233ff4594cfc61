import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Failure } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';

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
