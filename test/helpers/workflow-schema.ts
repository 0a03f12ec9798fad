import { NoOperationTraceWriter, parseWorkflow } from '@actions/workflow-parser';
import { parseAction } from '@actions/workflow-parser/actions/action-parser';

// GitHub's own parser of workflows and actions, with the schemas that its runner and its editor use.

/** What GitHub has against a workflow; empty when it takes it. */
export function workflowProblems(content: string): string[] {
  const { context } = parseWorkflow({ name: 'workflow.yml', content }, new NoOperationTraceWriter());
  return context.errors.getErrors().map(({ message }) => message);
}

/** What GitHub has against an action.yml; empty when it takes it. */
export function actionProblems(content: string): string[] {
  const { context } = parseAction({ name: 'action.yml', content }, new NoOperationTraceWriter());
  return context.errors.getErrors().map(({ message }) => message);
}
