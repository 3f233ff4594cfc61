import { Command } from 'commander';
import type { Context } from '../context.ts';
import { loginCommand } from './login-command.ts';
import { logoutCommand } from './logout-command.ts';
import { statusCommand } from './status-command.ts';
import { tokenCommand } from './token-command.ts';

/** `sluice auth` (decisions 1.8). */
export function authCommand(context: Context): Command {
  return new Command('auth')
    .description('Manage credentials for the management API')
    .addCommand(loginCommand(context))
    .addCommand(logoutCommand(context))
    .addCommand(statusCommand(context))
    .addCommand(tokenCommand(context));
}
