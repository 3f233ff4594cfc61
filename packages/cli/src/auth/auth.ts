import { Command } from 'commander';
import type { Context } from '../context.ts';
import { logInCommand } from './login-command.ts';
import { logOutCommand } from './logout-command.ts';
import { statusCommand } from './status-command.ts';
import { tokenCommand } from './token-command.ts';

/** `sluice auth` (decisions 1.8). */
export function auth(context: Context): Command {
  return new Command('auth')
    .description('Manage credentials for the management API')
    .addCommand(logInCommand(context))
    .addCommand(logOutCommand(context))
    .addCommand(statusCommand(context))
    .addCommand(tokenCommand(context));
}
