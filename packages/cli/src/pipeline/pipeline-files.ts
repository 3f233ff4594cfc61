import { Failure } from '../failure.ts';

/**
 * What the service knows of pipeline files, loaded when it is wanted. What is wrong with a file rejects with
 * {@link Failure}, in the service's words.
 */
export async function withPipelineModule<T>(
  use: (files: typeof import('@sluice/server/pipeline')) => Promise<T>,
): Promise<T> {
  const files = await import('@sluice/server/pipeline');
  try {
    return await use(files);
  } catch (error) {
    throw error instanceof files.ConfigError ? new Failure(error.message, { cause: error }) : error;
  }
}
