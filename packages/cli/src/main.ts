import { run } from './run.ts';
import { processTerminal } from './terminal/process-terminal.ts';

const terminal = processTerminal(process);
process.exitCode = await run(process.argv.slice(2), terminal);
// Idle connections to the service would keep the process for some seconds more; what was written must be out before.
terminal.end(() => process.exit());
