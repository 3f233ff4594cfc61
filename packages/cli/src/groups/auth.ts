import { Command } from 'commander';
import { logInCommand } from '../auth/login-command.ts';
import { logOutCommand, statusCommand } from '../auth/status-command.ts';
import { tokenCommand } from '../auth/token-command.ts';
import type { Context } from '../context.ts';

/** `sluice auth` (decisions 1.8). */
export function auth(context: Context): Command {
  return new Command('auth')
    .description('log in where an authenticating proxy stands before the service')
    .addCommand(logInCommand(context))
    .addCommand(logOutCommand(context))
    .addCommand(statusCommand(context))
    .addCommand(tokenCommand(context));
}
