import { isBuiltin } from 'node:module';
import type { Plugin } from 'rolldown';
import { ENTRY, fileOf, interfaceNames, isRuntime, PREFIX, runtimeFile } from './interfaces.ts';
import { placeOf, shown } from './place.ts';

const TYPES = '\0types';

/** What modules an action may import, told to the bundler. All mistakes are collected, so that they are told at once. */
export class ActionModules {
  readonly problems: string[] = [];
  /** Those that were read, the service's own included, whether anything of them is left or not. */
  readonly files: string[] = [];
  readonly #entry: string;

  constructor(entry: string) {
    this.#entry = entry;
  }

  plugin(): Plugin {
    const entry = this.#entry;
    const { files } = this;
    const refused = async (source: string, importer: string | undefined, why: string) => {
      const problem = `${importer === undefined || source === entry ? shown(source) : await placeOf(source, importer)}: ${why}`;
      if (!this.problems.includes(problem)) this.problems.push(problem);
      return { id: source, external: true };
    };
    return {
      name: 'action-modules',
      async resolveId(source, importer) {
        if (source === ENTRY) return ENTRY;
        if (source.startsWith(PREFIX)) {
          // What stands for an interface imports it from the service; everybody else imports what stands for it.
          if (importer !== undefined && isRuntime(importer)) return { id: source, external: true };
          if (source === `${PREFIX}types`) return TYPES;
          const file = fileOf(source);
          if (file !== undefined) return file;
          return refused(source, importer, `there is no "${source}"; there are ${interfaceNames().join(', ')}`);
        }
        const found = await this.resolve(source, importer, { skipSelf: true });
        // A package may be called as one of Node.js's own modules is (events, buffer); then it is the package.
        if (found !== null && !found.external) return found;
        if (source === entry) return refused(source, importer, 'no such file');
        if (isBuiltin(source)) {
          return refused(source, importer, `"${source}" is part of Node.js, which is not there in an action`);
        }
        const remedy = source.startsWith('.') ? 'there is no such file' : 'it is not installed';
        return refused(source, importer, `"${source}" cannot be imported: ${remedy}`);
      },
      load(id) {
        if (id === TYPES) return 'export {};';
        if (id !== ENTRY) {
          files.push(id);
          return null;
        }
        // The guard comes first, so that `console` is there when the author's modules run.
        return `
import { checked, run } from ${JSON.stringify(runtimeFile('guard.ts'))};
import { evaluate as written } from ${JSON.stringify(entry)};
const action = checked(written);
function guarded(context) { run(action, context); }
export { guarded as evaluate };
`;
      },
    };
  }
}
