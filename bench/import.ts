import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { startChild } from './child.ts';
import { startGateway } from './gateway.ts';
import type { Options } from './options.ts';
import { type Spread, spread } from './statistics.ts';

/** The command that operators run. */
const SLUICE = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url));

/** Most that one tool may take in the largest import, against one in the smallest. */
export const importLimit = 1.5;
/** Beneath this it is a tie: rounds differ as much among themselves. */
export const importAim = 1.25;

/** How long `sluice tools import` takes for one size of file. */
export interface ImportFigures {
  readonly tools: number;
  /** Milliseconds from starting the command to its end. */
  readonly wholeMs: Spread;
  /** Milliseconds per tool, without what an import of one tool takes. */
  readonly toolMs: Spread;
  /** Lines of progress that it wrote. */
  readonly progress: number;
}

/**
 * Imports files of each size, each into a gateway that was started for it with an empty registry.
 *
 * @throws Error when an import fails, or shows no progress though it takes longer than two seconds
 */
export async function measureImport(
  options: Options,
  folder: string,
  say: (line: string) => void,
): Promise<ImportFigures[]> {
  const { importSizes, importRounds } = options.plan;
  const measured = importSizes.map((tools) => ({
    tools,
    wholeMs: [] as number[],
    toolMs: [] as number[],
    progress: 0,
  }));
  for (let round = 0; round < importRounds; round++) {
    say(`import, round ${round + 1} of ${importRounds}`);
    const { ms: startMs } = await importTools(options, folder, 1);
    for (const figures of round % 2 === 0 ? measured : measured.toReversed()) {
      const { ms, progress } = await importTools(options, folder, figures.tools);
      figures.wholeMs.push(ms);
      figures.toolMs.push((ms - startMs) / figures.tools);
      figures.progress = progress;
    }
  }
  return measured.map(({ tools, wholeMs, toolMs, progress }) => ({
    tools,
    wholeMs: spread(wholeMs),
    toolMs: spread(toolMs),
    progress,
  }));
}

async function importTools(options: Options, folder: string, tools: number): Promise<{ ms: number; progress: number }> {
  const name = `import-${tools}-${performance.now()}`;
  const file = `${folder}/${name}.json`;
  writeFileSync(file, JSON.stringify(Array.from({ length: tools }, (_, index) => tool(index))));
  await using gateway = await startGateway({
    ...options,
    registryFolder: `${folder}/${name}`,
    outputFile: `${folder}/gateway.log`,
  });
  const arguments_ = [SLUICE, 'tools', 'import', file, '--host', gateway.management.href, '--no-auth'];
  const began = performance.now();
  await using command = startChild('sluice', `${folder}/sluice.log`, process.execPath, arguments_);
  await command.ended(120_000);
  const ms = performance.now() - began;
  const output = command.output();
  if (!output.includes(`created ${tools},`)) throw new Error(`sluice tools import of ${tools} tools: ${output}`);
  const progress = output.split('\n').filter((line) => line.includes(` of ${tools} tools`)).length;
  if (ms > 3_000 && progress === 0) throw new Error(`sluice tools import showed no progress in ${Math.round(ms)} ms`);
  return { ms, progress };
}

/** A tool as servers in the field have them: a sentence of description, some properties. */
function tool(index: number): object {
  return {
    name: `crm.customers.search_${index}`,
    description: 'Searches the customers of one region by name, state and date of the last order; answers 50 at most.',
    uri: 'http://127.0.0.1:9/mcp',
    toolType: 'search',
    input_schema: {
      type: 'object',
      properties: {
        region: { type: 'string', enum: ['north', 'south', 'east', 'west'] },
        name: { type: 'string', description: 'Part of the name' },
        since: { type: 'string', format: 'date' },
      },
      required: ['region'],
    },
    labels: { team: `team-${index % 7}` },
  };
}
