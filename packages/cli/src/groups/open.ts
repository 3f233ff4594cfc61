import { unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { sanitizeLine } from '../terminal/text.ts';

/** Commands that open a URL in the browser, by platform. */
const OPENERS: Partial<Record<NodeJS.Platform, string>> = { darwin: 'open', linux: 'xdg-open' };

/** `sluice open`: opens the web console. */
export function openCommand(context: Context): Command {
  return new Command('open')
    .description('Open the web console in the browser, and print its URL')
    .option('--no-browser', 'Only print the URL')
    .addHelpText('after', '\nExample:\n  sluice open --no-browser')
    .action(async ({ browser }: { readonly browser: boolean }) => {
      // Reports a service that does not run, instead of an empty page.
      const client = await context.connect();
      await unwrap(client.GET('/healthz'));
      const url = `${context.options().host}/admin/`;
      context.output().done({ url }, url);
      if (browser) await openBrowser(context, url);
    });
}

/** Opens a URL. A machine without a browser is no failure: the URL is printed. */
async function openBrowser({ terminal }: Context, url: string): Promise<void> {
  const { BROWSER, DISPLAY, WAYLAND_DISPLAY } = terminal.env;
  const hasDisplay = process.platform !== 'linux' || BROWSER || DISPLAY || WAYLAND_DISPLAY;
  const command = BROWSER || OPENERS[process.platform];
  if (!hasDisplay || command === undefined) return;
  const { spawn } = await import('node:child_process');
  await new Promise<void>((resolve) => {
    const child = spawn(command, [url], { stdio: 'ignore', detached: true, env: terminal.env });
    child.once('error', (error) => {
      terminal.stderr.write(`sluice: no browser was opened: ${sanitizeLine(error.message)}\n`);
      resolve();
    });
    child.once('spawn', () => {
      child.unref();
      resolve();
    });
  });
}
