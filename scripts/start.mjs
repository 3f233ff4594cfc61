// `npm start`: builds the web console if its sources have changed, and becomes `sluice serve`. Without the console for
// `npm start -- --headless` or with SERVICE_UI_PATH.
import { buildConsole } from './admin.mjs';

const serves = !['-h', '--help', '-v', '--version', '--headless'].some((flag) => process.argv.includes(flag));
if (serves && !process.env.SERVICE_UI_PATH) buildConsole();
await import('../packages/cli/bin/sluice.mjs');
