import { join } from 'node:path';
import { tryParseJson } from '@sluice/protocol/json/parse';
import { type Files, ifExists } from './files.ts';

const FILE = 'discovering.json';

/** Marks of discoveries in progress. */
export interface DiscoveryMarks {
  /** Forwards whose discovery was in progress when the previous process died; the latest last. */
  readonly interrupted: readonly string[];
  /** Marks a forward. */
  begin(forward: string): void;
  /** Removes its mark. */
  end(forward: string): void;
  /** Removes the marks of discoveries that the end of the service cancels; resolves when that is written. */
  close(): Promise<void>;
}

/**
 * Reads and writes the marks in a file. They are not synced to disk: they must survive the process, not the machine. Without
 * its marks the service works as well, so failures, such as of a full disk, are ignored.
 */
export async function openDiscoveryMarks(files: Files, folder: string): Promise<DiscoveryMarks> {
  const path = join(folder, FILE);
  const interrupted = parseNames(await ifExists(files.read(path)).catch(() => undefined));
  const current = new Set(interrupted);
  const running = new Set<string>();
  let last = Promise.resolve();

  const write = async (): Promise<void> => {
    if (current.size === 0) return files.remove(path);
    const temporary = `${path}.tmp`;
    const file = await files.open(temporary, 'w');
    await file.write(Buffer.from(JSON.stringify([...current])), 0).finally(() => file.close());
    await files.rename(temporary, path);
  };
  const update = (): void => {
    last = last.then(write).catch(() => undefined);
  };
  return {
    interrupted,
    begin(forward) {
      // The latest last: it is the most likely cause if the process dies.
      current.delete(forward);
      current.add(forward);
      running.add(forward);
      update();
    },
    end(forward) {
      running.delete(forward);
      if (current.delete(forward)) update();
    },
    close() {
      for (const forward of running) current.delete(forward);
      if (running.size > 0) update();
      running.clear();
      return last;
    },
  };
}

function parseNames(bytes: Buffer | undefined): string[] {
  const names = tryParseJson(bytes?.toString() ?? '[]');
  return Array.isArray(names) ? names.filter((name) => typeof name === 'string') : [];
}
