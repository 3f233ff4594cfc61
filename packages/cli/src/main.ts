import { run } from './run.ts';
import { processTerminal } from './terminal/process-terminal.ts';

const terminal = processTerminal(process);
process.exitCode = await run(process.argv.slice(2), terminal);
// Idle connections would keep the process alive for some seconds. Exit once all output is flushed.
terminal.end(() => process.exit());
