/** The part of the configuration that the CLI uses to check pipeline files (`@sluice/server/pipeline`). */

export { ConfigError } from '../../../http/settings.ts';
export { formatProblem } from '../yaml-document.ts';
export { effectivePipeline, validatePipelineFile } from './load.ts';
