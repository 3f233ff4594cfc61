import type { JsonObject } from '@sluice/protocol/json/parse';
import { parseEnvironment } from '../environment.ts';
import { lineOf, type Problem } from '../problem.ts';
import { fileForm } from './file-form.ts';
import { readKeyPairs } from './load-pipeline.ts';
import {
  checkPipeline,
  EMBEDDED_NAME,
  embeddedPipeline,
  folderOf,
  parsePipeline,
  pipelineText,
} from './pipeline-file.ts';
import { INFERENCE_CLUSTER, withEnvironment } from './with-environment.ts';

/** What there is to say of a pipeline file. */
export interface Examined {
  /** None: the service starts with it. */
  readonly problems: readonly Problem[];
  /** One line each. */
  readonly warnings: readonly string[];
  /** Names of the listeners; none when there are problems. */
  readonly listeners: readonly string[];
}

/**
 * Says all that is wrong with a file, its certificates included, without the environment (`sluice pipeline check`).
 * `name` is the file as it is called in what is said. Throws `ConfigError` when it cannot be read.
 */
export async function examinePipeline(path: string, name: string): Promise<Examined> {
  const checked = checkPipeline(await pipelineText(path, name), name, folderOf(path));
  if ('problems' in checked) return { problems: checked.problems, warnings: [], listeners: [] };
  const { problems, warnings } = await readKeyPairs(checked.pipeline, new Date());
  return {
    problems,
    warnings: [...checked.pipeline.warnings, ...warnings.map(lineOf)],
    listeners: problems.length > 0 ? [] : checked.pipeline.listeners.map((listener) => listener.name),
  };
}

/** What a service runs. */
export interface EffectivePipeline {
  /** With every default, in the form of a file. */
  readonly content: JsonObject;
  /** The text of the embedded pipeline, comments included, where it is run as it is. */
  readonly text: string | undefined;
  /** One line each; also what a file cannot say. */
  readonly warnings: readonly string[];
}

/**
 * The pipeline that a service with this file (the embedded one without) and this environment runs (`sluice pipeline
 * show`). Certificates are not read. Throws `ConfigError`.
 */
export async function effectivePipeline(
  file: { readonly path: string; readonly name: string } | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Promise<EffectivePipeline> {
  const environment = parseEnvironment(env);
  const text = file ? await pipelineText(file.path, file.name) : await embeddedPipeline();
  const parsed = file ? parsePipeline(text, file.name, folderOf(file.path)) : parsePipeline(text, EMBEDDED_NAME);
  const pipeline = withEnvironment(parsed, environment);
  const path = pipeline.clusters.get(INFERENCE_CLUSTER)?.path;
  const { mcpListen, inferenceListen, inferenceUpstream, corsOrigin } = environment;
  const asItIs = !file && [mcpListen, inferenceListen, inferenceUpstream, corsOrigin].every((each) => !each);
  return {
    content: fileForm(pipeline),
    text: asItIs ? text : undefined,
    warnings: [
      ...pipeline.warnings,
      ...(path ? [`SERVICE_INFERENCE_UPSTREAM puts ${path} in front of every path, which a file cannot say`] : []),
    ],
  };
}
