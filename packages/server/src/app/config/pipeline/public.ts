/** The part of the configuration that the CLI uses to check pipeline files (`@sluice/server/pipeline`). */

export { ConfigError } from '../../../http/address.ts';
export { formatProblem as lineOf } from '../yaml-document.ts';
export { effectivePipeline, examinePipeline } from './pipeline.ts';
