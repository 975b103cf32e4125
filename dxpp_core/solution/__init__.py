"""How a solution is found, the map from data to solutions, its gradients, and what is wrong where there is none."""
