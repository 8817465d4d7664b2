set(kernel_test_sources kernel_test.c kernel_bf16.c kernel_bodies.c kernel_bodies_24.c kernel_bodies_packed.c
    kernel_exl3.c kernel_faults.c kernel_faults_round.c kernel_kv.c kernel_optimizer.c kernel_panels.c kernel_refine.c kernel_round.c kernel_rows.c)
list(TRANSFORM kernel_test_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
