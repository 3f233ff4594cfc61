import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Bench, startNamed } from './bench.ts';
import { startChild } from './child.ts';
import { registeredTool } from './messages.ts';
import { makeLane, measureRounds } from './rounds.ts';
import { costTable, type Report } from './tables.ts';

/** Path of the `sluice` command. */
const SLUICE = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url));

/** Limit of the time per tool in the large import, relative to the small one. */
const importBound = { limit: 1.5, aim: 1.25 };

/** Measures imports of few and of many tools, each into a new gateway with an empty registry. */
export async function measureImport(bench: Bench): Promise<Report> {
  const { plan, log } = bench;
  const lanes = plan.importSizes.map((size) => {
    const measure = async () => {
      // A single tool takes the time of the command.
      const ms = (await importTools(bench, size)) - (await importTools(bench, 1));
      return { cpuUs: (ms * 1_000) / size, perSecond: (size * 1_000) / ms };
    };
    return makeLane(`${size} tools`, { warmUp: async () => undefined, measure });
  });
  const measured = { title: 'sluice tools import', lanes, bound: importBound };
  await measureRounds([measured], { rounds: Math.ceil(plan.rounds / 3) }, log);
  const rounds = `${Math.ceil(plan.rounds / 3)} rounds`;
  return { block: 'import', measured: rounds, tables: [costTable('µs per tool', [measured])] };
}

/** Imports tools and returns the milliseconds of the command. */
async function importTools(bench: Bench, count: number): Promise<number> {
  const { folder } = bench;
  const name = `import-${count}-${performance.now()}`;
  const file = `${folder}/${name}.json`;
  writeFileSync(file, JSON.stringify(Array.from({ length: count }, (_, index) => registeredTool(`search_${index}`))));
  await using gateway = await startNamed(bench, name);
  const args = [SLUICE, 'tools', 'import', file, '--host', gateway.management.href, '--no-auth'];
  const startedAt = performance.now();
  await using command = startChild('sluice', `${folder}/sluice.log`, process.execPath, args);
  await command.waitForExit(120_000);
  const ms = performance.now() - startedAt;
  const output = command.output();
  if (!output.includes(`created ${count},`)) throw new Error(`sluice tools import of ${count} tools: ${output}`);
  return ms;
}
