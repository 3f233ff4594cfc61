import type { Command } from 'commander';
import { action } from '../action/action.ts';
import { apply } from '../apply/apply.ts';
import { diff } from '../apply/diff.ts';
import { exportState } from '../apply/export.ts';
import { auth } from '../auth/auth.ts';
import { completion } from '../completion/completion.ts';
import { configure } from '../configure/configure.ts';
import type { Context } from '../context.ts';
import { evaluators } from '../evaluators/evaluators.ts';
import { mcp } from '../mcp/mcp.ts';
import { pipeline } from '../pipeline/pipeline.ts';
import { toolCalls } from '../tool-calls/tool-calls.ts';
import { forwards } from './forwards.ts';
import { health } from './health.ts';
import { interactions } from './interactions.ts';
import { metrics } from './metrics.ts';
import { namespaces } from './namespaces.ts';
import { prompts } from './prompts.ts';
import { resources } from './resources.ts';
import { serve } from './serve.ts';
import { services } from './services.ts';
import { statistics } from './statistics.ts';
import { tools } from './tools.ts';

/**
 * All groups of commands, in the order in which help names them. A group is a file here, or a room of its own, with a
 * function that takes the context and makes the command; libraries that take long to load are imported inside its actions.
 */
export function groups(context: Context): Command[] {
  return [
    serve(context),
    pipeline(context),
    forwards(context),
    namespaces(context),
    tools(context),
    resources(context),
    prompts(context),
    services(context),
    evaluators(context),
    action(context),
    apply(context),
    diff(context),
    exportState(context),
    mcp(context),
    configure(context),
    health(context),
    statistics(context),
    metrics(context),
    interactions(context),
    toolCalls(context),
    auth(context),
    completion(context),
  ];
}
