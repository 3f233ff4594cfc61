import { Clusters } from '../http/clusters.ts';
import { interactionRecorder } from '../inference/recorder.ts';
import { InferenceSettings, inferenceChange } from '../inference/settings.ts';
import type { WithCalls } from './call-parts.ts';
import { INFERENCE_CLUSTER } from './config/pipeline/pipeline.ts';

/** The outermost layer below the listeners: see {@link addInference}. */
export type Parts = Awaited<ReturnType<typeof addInference>>;

/** Adds what proxies requests to models and records them. */
export async function addInference(parts: WithCalls) {
  const { config, logger, replica, egress, interactions, closing } = parts;
  const clusters = closing(new Clusters(config.pipeline, egress));
  const inference = new InferenceSettings(
    config.pipeline.inferenceUpstream,
    interactions,
    (upstream) => clusters.replace(INFERENCE_CLUSTER, upstream),
    await replica?.openRecords('inference', inferenceChange),
  );
  const startRecording = interactionRecorder({ store: interactions, log: logger.target('service::inference') });
  return { ...parts, clusters, inference, startRecording };
}
