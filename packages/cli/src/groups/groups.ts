import type { Command } from 'commander';
import { actionCommand } from '../action/action.ts';
import { applyCommand } from '../apply/apply.ts';
import { diffCommand } from '../apply/diff.ts';
import { exportCommand } from '../apply/export.ts';
import { authCommand } from '../auth/auth.ts';
import { completionCommand } from '../completion/completion.ts';
import { configureCommand } from '../configure/configure.ts';
import type { Context } from '../context.ts';
import { evaluatorsCommand } from '../evaluators/evaluators.ts';
import { mcpCommand } from '../mcp/mcp.ts';
import { pipelineCommand } from '../pipeline/pipeline.ts';
import { toolCallsCommand } from '../tool-calls/tool-calls.ts';
import { forwardsCommand } from './forwards.ts';
import { healthCommand } from './health.ts';
import { interactionsCommand } from './interactions.ts';
import { metricsCommand } from './metrics.ts';
import { namespacesCommand } from './namespaces.ts';
import { promptsCommand } from './prompts.ts';
import { resourcesCommand } from './resources.ts';
import { serveCommand } from './serve.ts';
import { servicesCommand } from './services.ts';
import { statisticsCommand } from './statistics.ts';
import { toolsCommand } from './tools.ts';

/**
 * All groups of commands, in the order in which help names them. A group is a file here, or a room of its own, with a
 * function that takes the context and makes the command; libraries that take long to load are imported inside its actions.
 */
export function commandGroups(context: Context): Command[] {
  return [
    serveCommand(context),
    pipelineCommand(context),
    forwardsCommand(context),
    namespacesCommand(context),
    toolsCommand(context),
    resourcesCommand(context),
    promptsCommand(context),
    servicesCommand(context),
    evaluatorsCommand(context),
    actionCommand(context),
    applyCommand(context),
    diffCommand(context),
    exportCommand(context),
    mcpCommand(context),
    configureCommand(context),
    healthCommand(context),
    statisticsCommand(context),
    metricsCommand(context),
    interactionsCommand(context),
    toolCallsCommand(context),
    authCommand(context),
    completionCommand(context),
  ];
}
