import { ComponentRefusal } from './refusal.ts';

/** What a component may have (decisions 4.9: memories of 64 MiB in all). Memories in pages of 64 KiB, tables in elements. */
export const limits = {
  /** Compiling one of 30 MiB was seen to take 440 MiB, of the 512 that it has. */
  fileBytes: 30 * 1024 * 1024,
  coreModules: 128,
  coreInstances: 256,
  components: 64,
  memoryPages: 1024,
  tables: 32,
  tableElements: 100_000,
  allTableElements: 400_000,
} as const;

/** Counts what a walk meets, and throws `ComponentRefusal` as soon as something is too much. */
export class Tally {
  coreModules = 0;
  coreInstances = 0;
  components = 0;
  memoryPages = 0;
  tables = 0;
  tableElements = 0;

  coreModule(): void {
    this.coreModules += 1;
    this.#refuse(this.coreModules, limits.coreModules, 'core modules');
  }

  /** How many core instances there are in all when the component is instantiated, those of nested ones each time. */
  allCoreInstances(count: number): void {
    this.coreInstances = count;
    this.#refuse(count, limits.coreInstances, 'core instances');
  }

  /** One inside another. */
  component(): void {
    this.components += 1;
    this.#refuse(this.components, limits.components, 'nested components');
  }

  memory(minimum: number): void {
    this.memoryPages += minimum;
    this.#refuse(this.memoryPages, limits.memoryPages, 'pages of memory to begin with');
  }

  table(minimum: number): void {
    this.tables += 1;
    this.tableElements += minimum;
    this.#refuse(this.tables, limits.tables, 'tables');
    this.#refuse(minimum, limits.tableElements, 'elements in a table');
    this.#refuse(this.tableElements, limits.allTableElements, 'elements in its tables');
  }

  #refuse(count: number, most: number, what: string): void {
    if (count > most) throw new ComponentRefusal(`it has ${count} ${what}, actions may have ${most}; make it smaller`);
  }
}

/** Throws `ComponentRefusal` for a file that is too large to be looked at. */
export function checkSize(bytes: Uint8Array): void {
  if (bytes.length > limits.fileBytes) {
    throw new ComponentRefusal(
      `it has ${bytes.length} bytes, actions may have ${limits.fileBytes}; leave out debug information`,
    );
  }
}
